"""CronJobs: `controller` creates Jobs on schedule; `runs` decides which run is due and is pure."""
