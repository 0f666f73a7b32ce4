"""The roles of users, nodes and cluster components, as in Kubernetes 1.36.

`admin`, `edit` and `view` are aggregated: they hold the rules of all roles with their label, initially those of
`system:aggregate-to-*`; `objects` builds them.
"""

from typing import Final

#: Its binding has no subjects; operators of old clusters may add some. The node authorizer decides what nodes may do.
UNBOUND: Final = "system:node"

TABLE: Final = """
cluster-admin: Group/system:masters
    *  *  *
    *  paths  *
system:aggregate-to-admin
    create  authorization.k8s.io  localsubjectaccessreviews
    read,write  rbac.authorization.k8s.io  rolebindings,roles
system:aggregate-to-edit
    read  core  pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy
    impersonate  core  serviceaccounts
    write  core  pods,pods/attach,pods/exec,pods/portforward,pods/proxy
    create  core  pods/eviction
    write  core  configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,
        serviceaccounts,services,services/proxy
    create  core  serviceaccounts/token
    write  core,events.k8s.io  events
    write  apps  daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale,
        statefulsets,statefulsets/scale
    write  autoscaling  horizontalpodautoscalers
    write  batch  cronjobs,jobs
    write  extensions  daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies,
        replicasets,replicasets/scale,replicationcontrollers/scale
    write  policy  poddisruptionbudgets
    write  networking.k8s.io  ingresses,networkpolicies
    read,write  coordination.k8s.io  leases
    write  resource.k8s.io  resourceclaims,resourceclaimtemplates
system:aggregate-to-view
    read  core  configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,
        replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status
    read  core  bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,
        resourcequotas,resourcequotas/status
    read  core  namespaces
    read  core,events.k8s.io  events
    read  discovery.k8s.io  endpointslices
    read  apps  controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,
        replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status
    read  autoscaling  horizontalpodautoscalers,horizontalpodautoscalers/status
    read  batch  cronjobs,cronjobs/status,jobs,jobs/status
    read  extensions  daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses,
        ingresses/status,networkpolicies,replicasets,replicasets/scale,replicasets/status,
        replicationcontrollers/scale
    read  policy  poddisruptionbudgets,poddisruptionbudgets/status
    read  networking.k8s.io  ingresses,ingresses/status,networkpolicies
    read  resource.k8s.io  resourceclaims,resourceclaims/status,resourceclaimtemplates
system:auth-delegator
    create  authentication.k8s.io  tokenreviews
    create  authorization.k8s.io  subjectaccessreviews
system:basic-user: Group/system:authenticated
    create  authorization.k8s.io  selfsubjectaccessreviews,selfsubjectrulesreviews
    create  authentication.k8s.io  selfsubjectreviews
system:certificates.k8s.io:certificatesigningrequests:nodeclient
    create  certificates.k8s.io  certificatesigningrequests/nodeclient
system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
    create  certificates.k8s.io  certificatesigningrequests/selfnodeclient
system:certificates.k8s.io:kube-apiserver-client-approver
    approve  certificates.k8s.io  signers  kubernetes.io/kube-apiserver-client
system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
    approve  certificates.k8s.io  signers  kubernetes.io/kube-apiserver-client-kubelet
system:certificates.k8s.io:kubelet-serving-approver
    approve  certificates.k8s.io  signers  kubernetes.io/kubelet-serving
system:certificates.k8s.io:legacy-unknown-approver
    approve  certificates.k8s.io  signers  kubernetes.io/legacy-unknown
system:discovery: Group/system:authenticated
    get  paths  /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/
system:heapster
    read  core  events,namespaces,nodes,pods
    read  extensions  deployments
system:kube-aggregator
    read  core  endpoints,services
system:kube-controller-manager: User/system:kube-controller-manager
    record-events
    create  coordination.k8s.io  leases
    get,update  coordination.k8s.io  leases  kube-controller-manager
    create  core  secrets,serviceaccounts
    delete  core  secrets
    get  core  configmaps,namespaces,secrets,serviceaccounts
    update  core  secrets,serviceaccounts
    create  authentication.k8s.io  tokenreviews
    create  authorization.k8s.io  subjectaccessreviews
    list,watch  *  *
    create  core  serviceaccounts/token
system:kube-dns: ServiceAccount/kube-system/kube-dns
    list,watch  core  endpoints,services
system:kube-scheduler: User/system:kube-scheduler
    record-events
    create  coordination.k8s.io  leases
    read,update  coordination.k8s.io  leases  kube-scheduler
    read,write  coordination.k8s.io  leasecandidates
    read  core  nodes
    read,delete  core  pods
    create  core  bindings,pods/binding
    patch,update  core  pods/status
    read  core  replicationcontrollers,services
    read  apps,extensions  replicasets
    read  apps  statefulsets
    read  policy  poddisruptionbudgets
    read  core  persistentvolumeclaims,persistentvolumes
    create  authentication.k8s.io  tokenreviews
    create  authorization.k8s.io  subjectaccessreviews
    read  storage.k8s.io  csinodes
    read  storage.k8s.io  volumeattachments
    read  core  namespaces
    read  storage.k8s.io  csidrivers
    read  storage.k8s.io  csistoragecapacities
    read  resource.k8s.io  deviceclasses
    read,patch,update  resource.k8s.io  resourceclaims
    read,patch,update  resource.k8s.io  resourceclaims/status
    update  core  pods/finalizers
    read  resource.k8s.io  resourceslices
    create,delete  resource.k8s.io  resourceclaims
    patch,update  resource.k8s.io  resourceclaims/binding
system:kubelet-api-admin
    read  core  nodes
    proxy  core  nodes
    *  core  nodes/log,nodes/metrics,nodes/proxy,nodes/stats
    *  core  nodes/configz,nodes/healthz,nodes/pods
system:monitoring: Group/system:monitoring
    get  paths  /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,/statusz
    get  core  nodes/metrics
system:node
    create  authentication.k8s.io  tokenreviews
    create  authorization.k8s.io  localsubjectaccessreviews,subjectaccessreviews
    read  core  services
    read,create  core  nodes
    patch,update  core  nodes/status
    patch,update  core  nodes
    record-events
    read  core  pods
    create,delete  core  pods
    patch,update  core  pods/status
    create  core  pods/eviction
    read  core  configmaps,secrets
    get  core  persistentvolumeclaims,persistentvolumes
    get  core  endpoints
    read,create  certificates.k8s.io  certificatesigningrequests
    create,delete,get,patch,update  coordination.k8s.io  leases
    get  storage.k8s.io  volumeattachments
    create  core  serviceaccounts/token
    get,patch,update  core  persistentvolumeclaims/status
    read  storage.k8s.io  csidrivers
    create,delete,get,patch,update  storage.k8s.io  csinodes
    read  node.k8s.io  runtimeclasses
    get  resource.k8s.io  resourceclaims
    deletecollection  resource.k8s.io  resourceslices
    get  core  serviceaccounts
system:node-bootstrapper
    read,create  certificates.k8s.io  certificatesigningrequests
system:node-problem-detector
    get  core  nodes
    patch  core  nodes/status
    record-events
system:node-proxier: User/system:kube-proxy
    list,watch  core  endpoints,services
    read  core  nodes
    record-events
    list,watch  networking.k8s.io  servicecidrs
    list,watch  discovery.k8s.io  endpointslices
system:persistent-volume-provisioner
    read,create,delete  core  persistentvolumes
    read,update  core  persistentvolumeclaims
    read  storage.k8s.io  storageclasses
    watch  core  events
    record-events
system:public-info-viewer: Group/system:authenticated Group/system:unauthenticated
    get  paths  /healthz,/livez,/readyz,/version,/version/
system:service-account-issuer-discovery: Group/system:serviceaccounts
    get  paths  /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,
        /openid/v1/jwks/
system:volume-scheduler: User/system:kube-scheduler
    read,patch,update  core  persistentvolumes
    read  storage.k8s.io  storageclasses
    read,patch,update  core  persistentvolumeclaims
"""
