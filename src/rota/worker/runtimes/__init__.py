"""Container runtimes behind one interface (`runtime_interface`): processes of the machine, or OCI containers."""
