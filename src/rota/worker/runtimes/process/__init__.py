"""The process runtime: containers as ordinary processes of this machine, without images or privileges.

`shim` is a separate program that starts the processes and survives the worker; `runtime` and `shim_client` are the
worker's side of it. `deaths`, `isolation`, `spawn` and `terminals` are imported by the shim and use only the standard
library.
"""
