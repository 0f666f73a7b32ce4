"""Keys that wait to be worked on: see `work.WorkQueue`."""
