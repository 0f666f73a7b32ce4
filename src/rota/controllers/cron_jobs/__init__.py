"""CronJobs: a Job for every time that a schedule names."""
