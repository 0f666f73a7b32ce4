"""The agent that runs pods on a machine: a pure state machine, runtimes, and the shell between them and the API."""
