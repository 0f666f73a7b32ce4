"""Controllers of Volcano's kinds (`rota.api.batch`): Jobs, CronJobs, PodGroups, Queues, JobFlows, HyperNodes.

Decisions are in pure modules (`job_events`, `job_phases`, `job_pods`, `job_group`, `group_plan`, `queue_states`,
`flow_plan`, `domains`); the modules named after a kind read caches and write.
"""
