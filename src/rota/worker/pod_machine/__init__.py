"""The worker's decisions about its pods, pure: events in, instructions out. No I/O, no clock, no randomness.

`pod_manager` has all pods of a worker, `pods` the rules of one pod, `containers` the state of one container,
`machine_events` the events and instructions. `agent` carries the instructions out.
"""
