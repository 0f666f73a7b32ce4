"""The worker's decisions, pure: events in, instructions out. No I/O, no clock, no chance."""
