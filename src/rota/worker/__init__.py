"""The worker: runs the pods of one node, as Kubernetes' kubelet does.

`worker_assembly` builds a worker, `standalone` runs it as a process of its own, `agent` connects the API and the
runtime with the pure state machine in `pod_machine`. `runtimes` start containers, `endpoint` serves the kubelet's API
to the API server, `cluster_join` has the worker's membership and certificates, `services` makes cluster services
reachable for tasks. The other modules serve single steps: `node` and `status_reporter` write to the API, `volumes`,
`container_config` and `termination_message` prepare a container, `checkpoint` and `append_log` survive a crash.

Not here: the choice of a node (`rota.scheduler`), and pushing bound pods to workers (`rota.eager_dispatch`).
"""
