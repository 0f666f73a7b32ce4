"""Work queues of controllers: see `work.WorkQueue`."""
