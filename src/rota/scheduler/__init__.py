"""The scheduler: it watches pods and nodes, chooses a node for each pod, and binds it.

The way of a pod: `ingest` decodes watch events for the `core`, which keeps the `cache` and the `queue` and pops pods;
`cycle` runs the `plugins` through the `framework` and reserves a node; `scheduling_loop` carries out what the core
decided: `binding` binds the pod, `status` writes conditions and events. `service` builds these parts and runs them
while the process is the leader.

Around that way: `config` reads KubeSchedulerConfiguration and `plugin_registry` finds plugins; `extenders`,
`preemption` and `volumes` serve single steps of a cycle; `batch` places many pods at once; `explanation`, `hints`,
`recording`, `snapshot`, `observability` and `debug_pages` are for users and operators; `rebalancing` moves pods that
run already, and `tuning` changes weights while they are in force.

Not here: the cluster as arrays (`rota.columns`), informers and leader election (`rota.client`), moving pods off spot
machines (`rota.spot_control`).
"""
