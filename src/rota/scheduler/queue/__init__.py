"""The scheduling queue: ready pods in order, backoff after failures, and events that wake unschedulable pods.

Pure: `now` is an argument everywhere (monotonic seconds), nothing here waits. The entry point is `scheduling_queue`;
plugins are called through `framework.queueing_hints`.
"""
