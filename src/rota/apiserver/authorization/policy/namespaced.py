"""Roles in the system's namespaces: as in Kubernetes 1.36, and for the leader elections of Rota's components."""

from typing import Final

TABLE: Final = """
kube-public/system:controller:bootstrap-signer: ServiceAccount/kube-system/bootstrap-signer
    read  core  configmaps
    update  core  configmaps  cluster-info
    record-events
kube-system/extension-apiserver-authentication-reader: User/system:kube-controller-manager User/system:kube-scheduler
    read  core  configmaps  extension-apiserver-authentication
kube-system/system::leader-locking-kube-controller-manager: User/system:kube-controller-manager
        ServiceAccount/kube-system/kube-controller-manager ServiceAccount/kube-system/leader-election-controller
    read,create,update  coordination.k8s.io  leases
    read,create,update  coordination.k8s.io  leasecandidates
kube-system/system::leader-locking-kube-scheduler: User/system:kube-scheduler ServiceAccount/kube-system/kube-scheduler
    read,create,update  coordination.k8s.io  leases
    read,create,update  coordination.k8s.io  leasecandidates
kube-system/system:controller:bootstrap-signer: ServiceAccount/kube-system/bootstrap-signer
    read  core  secrets
kube-system/system:controller:cloud-provider: ServiceAccount/kube-system/cloud-provider
    read,create  core  configmaps
kube-system/system:controller:token-cleaner: ServiceAccount/kube-system/token-cleaner
    read,delete  core  secrets
    record-events
kube-system/rota:controller:join-tokens: User/rota:controller:join-tokens
    read,delete  core  secrets
kube-system/rota:controller:spot-places: User/rota:controller:spot
    create  core  pods
kube-system/rota:leader-election-controllers: User/rota:controllers
    create  coordination.k8s.io  leases
    get,update,patch  coordination.k8s.io  leases  rota-controllers
kube-system/rota:masters: User/rota:masters
    read,create,update,patch,delete  coordination.k8s.io  leases
kube-system/rota:masters-view: Group/system:nodes
    read  coordination.k8s.io  leases
kube-system/rota:leader-election-scheduler: User/rota:scheduler
    create  coordination.k8s.io  leases
    get,update,patch  coordination.k8s.io  leases  kube-scheduler
"""

#: A binding whose name is not its role's.
BINDING_NAMES: Final = {
    "extension-apiserver-authentication-reader": "system::extension-apiserver-authentication-reader"
}
