"""Pods that wait for a node: who is next, who rests after a failure, and what wakes those that could not be helped.

Pure: `now` is an argument everywhere (seconds that never go back), nothing here waits. `scheduling_queue` is the door.
"""
