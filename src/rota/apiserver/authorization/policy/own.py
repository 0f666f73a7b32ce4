"""The roles of Rota's own components, with the permissions that each one needs.

The scheduler is the user `rota:scheduler`, a controller is `rota:controller:` and its name, and `rota:controllers` is
the candidate of the leader election for all of them; leases are in kube-system (`namespaced`). Workers are nodes, which
the node authorizer decides about. A new machine with a join token may request a worker's certificate, and a worker its
next one. `rota:explain` and `rota:what-if` are for people and have no subjects: their answers show all nodes and pods
of other users, which the server reads as `rota:what-if-reader`.
`rota:tuner` may propose weights of the scheduler, `rota:tuning-approver` may put them into force.
`rota:dashboard` reads what the dashboard's views show; each view asks for the rights of its user.
`rota:metrics-reader` is part of `view`: users who may see pods may see their usage.
"""

from typing import Final

TABLE: Final = """
rota:scheduler: User/rota:scheduler
    record-events
    read  core  namespaces,nodes,persistentvolumeclaims,persistentvolumes,pods,replicationcontrollers,services
    delete  core  pods
    patch,update  core  persistentvolumeclaims,persistentvolumes,pods/status
    create  core  bindings,pods/binding,pods/eviction
    create  rota.dev  bindingbatches
    read,create,delete,update  rota.dev  schedulerinstances,shardmaps
    read  rota.dev  nodeforecasts,tuningproposals
    patch,update  rota.dev  schedulerinstances/status,shardmaps/status
    read  apps  replicasets,statefulsets
    read  policy  poddisruptionbudgets
    read  scheduling.k8s.io  podgroups,priorityclasses,workloads
    patch,update  scheduling.k8s.io  podgroups/status
    read  core  resourcequotas
    read  scheduling.volcano.sh  podgroups,queues
    patch  scheduling.volcano.sh  podgroups,podgroups/status,queues/status
    read  topology.volcano.sh  hypernodes
    read  nodeinfo.volcano.sh  numatopologies
    list  metrics.k8s.io  nodes
    read  storage.k8s.io  csidrivers,csinodes,csistoragecapacities,storageclasses,volumeattachments
    read  resource.k8s.io  deviceclasses,devicetaintrules,resourceclaims,resourceslices
    create,delete,patch,update  resource.k8s.io  resourceclaims
    patch,update  resource.k8s.io  resourceclaims/binding,resourceclaims/status
    update  core  pods/finalizers
rota:explain
    get  core  pods/explain
rota:what-if
    create  rota.dev  whatifs
rota:tuner
    read,create  rota.dev  tuningproposals
rota:tuning-approver
    read,approve,delete,patch,update  rota.dev  tuningproposals
rota:what-if-reader: User/rota:what-if-reader
    list  core  namespaces,nodes,persistentvolumeclaims,persistentvolumes,pods,replicationcontrollers,services
    list  apps  replicasets,statefulsets
    list  policy  poddisruptionbudgets
    list  scheduling.k8s.io  priorityclasses
    list  storage.k8s.io  csidrivers,csinodes,csistoragecapacities,storageclasses,volumeattachments
rota:metrics-reader
    get,list  metrics.k8s.io  nodes,pods
rota:pipelines-view
    read  rota.dev  pipelineruns,pipelineruns/status,pipelines,pipelines/status,stepruns,stepruns/status
rota:pipelines-edit
    create,delete,deletecollection,patch,update  rota.dev  pipelineruns,pipelines
rota:batch-view
    read  batch.volcano.sh  cronjobs,cronjobs/status,jobs,jobs/status
    read  bus.volcano.sh  commands
    read  flow.volcano.sh  jobflows,jobflows/status,jobtemplates,jobtemplates/status
    read  scheduling.volcano.sh  podgroups,queues,queues/status
    read  topology.volcano.sh  hypernodes,hypernodes/status
rota:batch-edit
    create,delete,deletecollection,patch,update  batch.volcano.sh  cronjobs,jobs
    create,delete,deletecollection,patch,update  bus.volcano.sh  commands
    create,delete,deletecollection,patch,update  flow.volcano.sh  jobflows,jobtemplates
    create,delete,deletecollection,patch,update  scheduling.volcano.sh  podgroups
rota:dashboard: User/rota:dashboard
    read  core  namespaces,nodes,pods
    read  apps  daemonsets,deployments,statefulsets
    read  batch  jobs
    read  coordination.k8s.io  leases
    read  rbac.authorization.k8s.io  clusterrolebindings,clusterroles,rolebindings,roles
    read  rota.dev  clusterstates,nodeforecasts,pipelineruns,pipelines,schedulerinstances,shardmaps,stepruns
    read  batch.volcano.sh  jobs
    read  scheduling.volcano.sh  podgroups,queues
    read  cluster.karmada.io  clusters
    read  work.karmada.io  resourcebindings
rota:controllers: User/rota:controllers
    read  core  namespaces,nodes,pods
    read  apps  replicasets
    read  batch  jobs
    read  batch.volcano.sh  jobs
    read  rota.dev  pipelineruns,stepruns
    read  scheduling.volcano.sh  podgroups
rota:controller:account-secrets: User/rota:controller:account-secrets
    read  core  serviceaccounts
    read,delete,update  core  secrets
    create  core  serviceaccounts/token
rota:controller:autoscaling: User/rota:controller:autoscaling
    record-events
    read  autoscaling  horizontalpodautoscalers
    update  autoscaling  horizontalpodautoscalers/status
    get,update  *  */scale
    list  core  pods
    list  metrics.k8s.io  pods
    get,list  custom.metrics.k8s.io,external.metrics.k8s.io  *
rota:controller:batch-cron-jobs: User/rota:controller:batch-cron-jobs
    record-events
    read  batch.volcano.sh  cronjobs
    update  batch.volcano.sh  cronjobs/status
    read,create,delete  batch.volcano.sh  jobs
rota:controller:batch-domains: User/rota:controller:batch-domains
    read,create,delete,update  topology.volcano.sh  hypernodes
    update  topology.volcano.sh  hypernodes/status
    read  core  configmaps,nodes
rota:controller:batch-flows: User/rota:controller:batch-flows
    record-events
    read  flow.volcano.sh  jobflows,jobtemplates
    update  flow.volcano.sh  jobflows/status,jobtemplates/status
    read,create,delete  batch.volcano.sh  jobs
    read  core  pods
rota:controller:batch-groups: User/rota:controller:batch-groups
    record-events
    read,create,delete  scheduling.volcano.sh  podgroups
    read,patch  core  pods
    read  apps  replicasets,statefulsets
    read  batch  jobs
rota:controller:batch-jobs: User/rota:controller:batch-jobs
    record-events
    read,delete  batch.volcano.sh  jobs
    update  batch.volcano.sh  jobs/status
    read,create,delete,patch  scheduling.volcano.sh  podgroups
    read,delete  bus.volcano.sh  commands
    read  scheduling.k8s.io  priorityclasses
    read,create,delete  core  pods
    get,create,update  core  configmaps
    get,create  core  persistentvolumeclaims,services
    create  core  secrets
    get,create  networking.k8s.io  networkpolicies
rota:controller:batch-queues: User/rota:controller:batch-queues
    record-events
    read,patch  scheduling.volcano.sh  queues
    patch  scheduling.volcano.sh  queues/status
    read  scheduling.volcano.sh  podgroups
    read,delete  bus.volcano.sh  commands
rota:controller:certificates: User/rota:controller:certificates
    read,delete  certificates.k8s.io  certificatesigningrequests
    patch,update  certificates.k8s.io  certificatesigningrequests/approval,certificatesigningrequests/status
    approve  certificates.k8s.io  signers  kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving
    sign  certificates.k8s.io  signers
        kubernetes.io/kube-apiserver-client,kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving
    create  authorization.k8s.io  subjectaccessreviews
    get  core  nodes
rota:controller:cluster-states: User/rota:controller:cluster-states
    read  core  nodes,pods
    read  rota.dev  nodeforecasts
    read,create  rota.dev  clusterstates
    update  rota.dev  clusterstates/status
rota:controller:cron-jobs: User/rota:controller:cron-jobs
    record-events
    read  batch  cronjobs
    update  batch  cronjobs/status
    read,create,delete  batch  jobs
rota:controller:daemon-sets: User/rota:controller:daemon-sets
    record-events
    read  apps  daemonsets
    update  apps  daemonsets/status
    read,create,delete,patch,update  apps  controllerrevisions
    read  core  nodes
    read,create,delete,patch  core  pods
rota:controller:deployments: User/rota:controller:deployments
    record-events
    read  apps  deployments
    update  apps  deployments/status
    read,create,delete,patch,update  apps  replicasets
    list  core  pods
rota:controller:disruption: User/rota:controller:disruption
    read  policy  poddisruptionbudgets
    update  policy  poddisruptionbudgets/status
    read  core  pods,replicationcontrollers
    read  apps  deployments,replicasets,statefulsets
rota:controller:endpoints: User/rota:controller:endpoints
    read  core  nodes,pods,services
    read,create,delete,update  core  endpoints
    read,create,delete,update  discovery.k8s.io  endpointslices
rota:controller:event-expiry: User/rota:controller:event-expiry
    read,delete  core,events.k8s.io  events
rota:controller:garbage: User/rota:controller:garbage
    read,delete,patch,update  *  *
rota:controller:jobs: User/rota:controller:jobs
    record-events
    read  batch  jobs
    update  batch  jobs/status
    read,create,delete,patch  core  pods
rota:controller:namespaces: User/rota:controller:namespaces
    read,delete,deletecollection  *  *
    update  core  namespaces/finalize,namespaces/status
rota:controller:node-lifecycle: User/rota:controller:node-lifecycle
    read,update  core  nodes
    update  core  nodes/status
    read  core  pods
    patch  core  pods/status
    read  coordination.k8s.io  leases
rota:controller:pipeline-runs: User/rota:controller:pipeline-runs
    record-events
    read  rota.dev  pipelineruns,pipelines
    update  rota.dev  pipelineruns/status
    read,create,delete,patch  rota.dev  stepruns
    create  core  secrets
rota:controller:pipelines: User/rota:controller:pipelines
    record-events
    read  rota.dev  pipelines
    update  rota.dev  pipelines/status
    read,create,delete,patch  rota.dev  pipelineruns
rota:controller:pod-garbage-collector: User/rota:controller:pod-garbage-collector
    read  core  nodes
    read,delete  core  pods
    patch  core  pods/status
rota:controller:pod-state-sync: User/rota:controller:pod-state-sync
    read  core  nodes
    read,delete  core  pods
    patch  core  pods/status
rota:controller:rebalancing: User/rota:controller:rebalancing
    record-events
    read  rota.dev  rebalancepolicies
    update  rota.dev  rebalancepolicies/status
    list  core  namespaces,nodes,persistentvolumeclaims,persistentvolumes,pods,replicationcontrollers,services
    list  apps  replicasets,statefulsets
    list  policy  poddisruptionbudgets
    list  scheduling.k8s.io  priorityclasses
    list  storage.k8s.io  csidrivers,csinodes,csistoragecapacities,storageclasses,volumeattachments
    list  metrics.k8s.io  nodes,pods
    create  core  pods/eviction
rota:controller:replica-sets: User/rota:controller:replica-sets
    record-events
    read  apps  replicasets
    update  apps  replicasets/status
    read,create,delete,patch  core  pods
rota:controller:resource-quotas: User/rota:controller:resource-quotas
    list,watch  *  *
    update  core  resourcequotas/status
rota:controller:role-aggregation: User/rota:controller:role-aggregation
    read,escalate,patch,update  rbac.authorization.k8s.io  clusterroles
rota:controller:service-accounts: User/rota:controller:service-accounts
    read  core  namespaces
    read,create  core  serviceaccounts
    create  core  configmaps
    read,update  core  configmaps  kube-root-ca.crt
rota:controller:spot: User/rota:controller:spot
    record-events
    read,patch  core  nodes
    read,delete  core  pods
    create  core  pods/eviction
    patch  core  pods/status
    list  core  namespaces,persistentvolumeclaims,persistentvolumes,replicationcontrollers,services
    list  apps  replicasets,statefulsets
    list  policy  poddisruptionbudgets
    list  scheduling.k8s.io  priorityclasses
    list  storage.k8s.io  csidrivers,csinodes,csistoragecapacities,storageclasses,volumeattachments
rota:controller:stateful-sets: User/rota:controller:stateful-sets
    record-events
    read  apps  statefulsets
    update  apps  statefulsets/status
    read,create,delete,patch,update  apps  controllerrevisions
    read,create,delete,patch  core  pods
    read,create,update  core  persistentvolumeclaims
rota:controller:step-runs: User/rota:controller:step-runs
    read  rota.dev  stepruns
    update  rota.dev  stepruns/status
    read,create,delete  core  pods
    get  core  pods/log
    get,create  core  services
    read,create,delete  batch  jobs
rota:controller:taint-eviction: User/rota:controller:taint-eviction
    read  core  nodes
    read,delete  core  pods
    patch  core  pods/status
rota:controller:tuning: User/rota:controller:tuning
    record-events
    read  rota.dev  clusterstates,tuningproposals
    update  rota.dev  tuningproposals/status
rota:controller:ttl-after-finished: User/rota:controller:ttl-after-finished
    read,delete  batch  jobs
"""

#: Roles that are aggregated to others.
PART_OF: Final = {
    "rota:batch-view": "view",
    "rota:batch-edit": "edit",
    "rota:metrics-reader": "view",
    "rota:pipelines-view": "view",
    "rota:pipelines-edit": "edit",
}
#: Bindings of roles that are in `general`: the role, then its subjects.
BINDINGS: Final = {
    "rota:join-workers": ("system:node-bootstrapper", "Group/system:bootstrappers"),
    "rota:approve-workers": (
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        "Group/system:bootstrappers",
    ),
    "rota:renew-workers": (
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        "Group/system:nodes",
    ),
}
