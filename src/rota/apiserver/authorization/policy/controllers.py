"""The roles of the controllers of a stock kube-controller-manager, as in Kubernetes 1.36.

With `--use-service-account-credentials` each controller uses the service account of its name in kube-system; the role
is `system:controller:` and that name. Rota's own controllers have roles of their own (`own`).
"""

from typing import Final

TABLE: Final = """
attachdetach-controller
    list,watch  core  persistentvolumeclaims,persistentvolumes
    read  core  nodes
    patch,update  core  nodes/status
    list,watch  core  pods
    record-events
    read,create,delete  storage.k8s.io  volumeattachments
    read  storage.k8s.io  csidrivers
    read  storage.k8s.io  csinodes
certificate-controller
    read,delete  certificates.k8s.io  certificatesigningrequests
    update  certificates.k8s.io  certificatesigningrequests/approval,certificatesigningrequests/status
    approve  certificates.k8s.io  signers  kubernetes.io/kube-apiserver-client-kubelet
    sign  certificates.k8s.io  signers  kubernetes.io/kube-apiserver-client,
        kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving,kubernetes.io/legacy-unknown
    create  authorization.k8s.io  subjectaccessreviews
    record-events
clusterrole-aggregation-controller
    read,escalate,patch,update  rbac.authorization.k8s.io  clusterroles
cronjob-controller
    read,update  batch  cronjobs
    read,create,delete,patch,update  batch  jobs
    update  batch  cronjobs/status
    update  batch  cronjobs/finalizers
    delete,list,watch  core  pods
    record-events
daemon-set-controller
    read  apps,extensions  daemonsets
    update  apps,extensions  daemonsets/status
    update  apps,extensions  daemonsets/finalizers
    list,watch  core  nodes
    create,delete,list,patch,watch  core  pods
    create  core  pods/binding
    read,create,delete,patch,update  apps  controllerrevisions
    record-events
deployment-controller
    read,update  apps,extensions  deployments
    update  apps,extensions  deployments/status
    update  apps,extensions  deployments/finalizers
    read,create,delete,patch,update  apps,extensions  replicasets
    read,update  core  pods
    record-events
device-taint-eviction-controller
    read,delete  core  pods
    patch,update  core  pods/status
    read  resource.k8s.io  resourceclaims
    read  resource.k8s.io  resourceslices
    read  resource.k8s.io  deviceclasses
    record-events
disruption-controller
    read  apps,extensions  deployments
    read  apps,extensions  replicasets
    read  core  replicationcontrollers
    read  policy  poddisruptionbudgets
    read  apps  statefulsets
    update  policy  poddisruptionbudgets/status
    patch,update  core  pods/status
    get  *  */scale
    record-events
endpoint-controller
    read  core  pods,services
    read,create,delete,update  core  endpoints
    create  core  endpoints/restricted
    record-events
endpointslice-controller
    read  core  nodes,pods,services
    update  core  services/finalizers
    read,create,delete,update  discovery.k8s.io  endpointslices
    record-events
endpointslicemirroring-controller
    read  core  endpoints,services
    update  core  services/finalizers
    update  core  endpoints/finalizers
    read,create,delete,update  discovery.k8s.io  endpointslices
    record-events
ephemeral-volume-controller
    read  core  pods
    update  core  pods/finalizers
    read,create  core  persistentvolumeclaims
    record-events
expand-controller
    read,patch,update  core  persistentvolumes
    patch,update  core  persistentvolumeclaims/status
    read  core  persistentvolumeclaims
    record-events
generic-garbage-collector
    read,delete,patch,update  *  *
    record-events
horizontal-pod-autoscaler
    read  autoscaling  horizontalpodautoscalers
    update  autoscaling  horizontalpodautoscalers/status
    get,update  *  */scale
    list,watch  core  pods
    list,watch  metrics.k8s.io  pods
    read  custom.metrics.k8s.io  *
    read  external.metrics.k8s.io  *
    record-events
job-controller
    read,patch,update  batch  jobs
    update  batch  jobs/status
    update  batch  jobs/finalizers
    create,delete,list,patch,watch  core  pods
    record-events
legacy-service-account-token-cleaner
    get  core  configmaps  kube-apiserver-legacy-service-account-token-tracking
    delete,patch  core  secrets
namespace-controller
    read,delete  core  namespaces
    update  core  namespaces/finalize,namespaces/status
    read,delete,deletecollection  *  *
node-controller
    read,delete,patch,update  core  nodes
    patch,update  core  nodes/status
    patch,update  core  pods/status
    read,delete  core  pods
    record-events
persistent-volume-binder
    read,create,delete,update  core  persistentvolumes
    update  core  persistentvolumes/status
    read,update  core  persistentvolumeclaims
    update  core  persistentvolumeclaims/status
    read,create,delete  core  pods
    read  storage.k8s.io  storageclasses
    list,watch  core  nodes
    record-events
    watch  core  events
pod-garbage-collector
    delete,list,watch  core  pods
    read  core  nodes
    patch  core  pods/status
pv-protection-controller
    read,update  core  persistentvolumes
    record-events
pvc-protection-controller
    read,update  core  persistentvolumeclaims
    update  core  persistentvolumeclaims/status
    read  core  pods
    record-events
replicaset-controller
    read,update  apps,extensions  replicasets
    update  apps,extensions  replicasets/status
    update  apps,extensions  replicasets/finalizers
    create,delete,list,patch,watch  core  pods
    record-events
replication-controller
    read,update  core  replicationcontrollers
    update  core  replicationcontrollers/status
    update  core  replicationcontrollers/finalizers
    create,delete,list,patch,watch  core  pods
    record-events
resource-claim-controller
    read  core  pods
    update  core  pods/finalizers
    read,create,delete  resource.k8s.io  resourceclaims
    patch,update  resource.k8s.io  resourceclaims,resourceclaims/status
    patch,update  core  pods/status
    record-events
    patch,update  resource.k8s.io  resourceclaims/binding
resourcequota-controller
    list,watch  *  *
    update  core  resourcequotas/status
    record-events
root-ca-cert-publisher
    create,update  core  configmaps
    record-events
route-controller
    list,watch  core  nodes
    patch  core  nodes/status
    record-events
selinux-warning-controller
    record-events
    read  core  persistentvolumes
    read  core  persistentvolumeclaims
    read  core  pods
    read  storage.k8s.io  csidrivers
service-account-controller
    create  core  serviceaccounts
    record-events
service-cidrs-controller
    read,patch,update  networking.k8s.io  servicecidrs
    patch,update  networking.k8s.io  servicecidrs/finalizers
    patch,update  networking.k8s.io  servicecidrs/status
    read  networking.k8s.io  ipaddresses
    record-events
service-controller
    read  core  services
    patch,update  core  services/status
    list,watch  core  nodes
    record-events
statefulset-controller
    list,watch  core  pods
    read  apps  statefulsets
    update  apps  statefulsets/status
    update  apps  statefulsets/finalizers
    create,delete,get,patch,update  core  pods
    read,create,delete,patch,update  apps  controllerrevisions
    read,create  core  persistentvolumeclaims
    delete,update  core  persistentvolumeclaims
    update  core  pods/finalizers
    record-events
ttl-after-finished-controller
    read,delete  batch  jobs
    record-events
ttl-controller
    list,patch,update,watch  core  nodes
    record-events
validatingadmissionpolicy-status-controller
    read  admissionregistration.k8s.io  validatingadmissionpolicies
    get,patch,update  admissionregistration.k8s.io  validatingadmissionpolicies/status
    record-events
volumeattributesclass-protection-controller
    read  core  persistentvolumeclaims
    read  core  persistentvolumes
    read,update  storage.k8s.io  volumeattributesclasses
    record-events
"""
