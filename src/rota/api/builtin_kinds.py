"""The built-in kinds of Kubernetes 1.37, as a table.

Group, version, kind, plural, scope and subresources are those of the `lightkube-models` distribution (a test holds
them equal); short names, categories and the connecting subresources (log, exec, ...) are facts that it lacks. A table
instead of imports, because reading it takes a millisecond and importing every Struct a fifth of a second.

Columns: kind, plural, scope (`ns` or `-`), short names, categories, subresources, and the verbs if they are not all
(`-verb`: all but this one).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from rota.api.identifiers import GroupVersion, GroupVersionKind
from rota.api.kinds import ALL_VERBS, ResourceType, Subresource

_TABLE: Final[dict[tuple[str, str, str], str]] = {
    ("admissionregistration.k8s.io", "v1", "admissionregistration_v1"): """
    MutatingAdmissionPolicy          mutatingadmissionpolicies         -  -        api-extensions -
    MutatingAdmissionPolicyBinding   mutatingadmissionpolicybindings   -  -        api-extensions -
    MutatingWebhookConfiguration     mutatingwebhookconfigurations     -  -        api-extensions -
    ValidatingAdmissionPolicy        validatingadmissionpolicies       -  -        api-extensions status
    ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings -  -        api-extensions -
    ValidatingWebhookConfiguration   validatingwebhookconfigurations   -  -        api-extensions -
""",
    ("admissionregistration.k8s.io", "v1alpha1", "admissionregistration_v1alpha1"): """
    MutatingAdmissionPolicy          mutatingadmissionpolicies         -  -        api-extensions -
    MutatingAdmissionPolicyBinding   mutatingadmissionpolicybindings   -  -        api-extensions -
""",
    ("admissionregistration.k8s.io", "v1beta1", "admissionregistration_v1beta1"): """
    MutatingAdmissionPolicy          mutatingadmissionpolicies         -  -        api-extensions -
    MutatingAdmissionPolicyBinding   mutatingadmissionpolicybindings   -  -        api-extensions -
""",
    ("apiextensions.k8s.io", "v1", "apiextensions_v1"): """
    CustomResourceDefinition         customresourcedefinitions         -  crd,crds api-extensions status
""",
    ("apiregistration.k8s.io", "v1", "apiregistration_v1"): """
    APIService                       apiservices                       -  -        api-extensions status
""",
    ("apps", "v1", "apps_v1"): """
    ControllerRevision               controllerrevisions               ns -        -              -
    DaemonSet                        daemonsets                        ns ds       all            status
    Deployment                       deployments                       ns deploy   all            scale,status
    ReplicaSet                       replicasets                       ns rs       all            scale,status
    StatefulSet                      statefulsets                      ns sts      all            scale,status
""",
    ("authentication.k8s.io", "v1", "authentication_v1"): """
    SelfSubjectReview                selfsubjectreviews                -  -        -              - create
    TokenReview                      tokenreviews                      -  -        -              - create
""",
    ("authorization.k8s.io", "v1", "authorization_v1"): """
    LocalSubjectAccessReview         localsubjectaccessreviews         ns -        -              - create
    SelfSubjectAccessReview          selfsubjectaccessreviews          -  -        -              - create
    SelfSubjectRulesReview           selfsubjectrulesreviews           -  -        -              - create
    SubjectAccessReview              subjectaccessreviews              -  -        -              - create
""",
    ("autoscaling", "v1", "autoscaling_v1"): """
    HorizontalPodAutoscaler          horizontalpodautoscalers          ns hpa      all            status
""",
    ("autoscaling", "v2", "autoscaling_v2"): """
    HorizontalPodAutoscaler          horizontalpodautoscalers          ns hpa      all            status
""",
    ("batch", "v1", "batch_v1"): """
    CronJob                          cronjobs                          ns cj       all            status
    Job                              jobs                              ns -        all            status
""",
    ("certificates.k8s.io", "v1", "certificates_v1"): """
    CertificateSigningRequest        certificatesigningrequests        -  csr      -              approval,status
    ClusterTrustBundle               clustertrustbundles               -  -        -              -
    PodCertificateRequest            podcertificaterequests            ns -        -              status
""",
    ("certificates.k8s.io", "v1beta1", "certificates_v1beta1"): """
    ClusterTrustBundle               clustertrustbundles               -  -        -              -
    PodCertificateRequest            podcertificaterequests            ns -        -              status
""",
    ("coordination.k8s.io", "v1", "coordination_v1"): """
    Lease                            leases                            ns -        -              -
""",
    ("coordination.k8s.io", "v1alpha2", "coordination_v1alpha2"): """
    LeaseCandidate                   leasecandidates                   ns -        -              -
""",
    ("coordination.k8s.io", "v1beta1", "coordination_v1beta1"): """
    LeaseCandidate                   leasecandidates                   ns -        -              -
""",
    ("", "v1", "core_v1"): """
    Binding                          bindings                          ns -        -              - create
    ComponentStatus                  componentstatuses                 -  cs       -              - get,list
    ConfigMap                        configmaps                        ns cm       -              -
    Endpoints                        endpoints                         ns ep       -              -
    Event                            events                            ns ev       -              -
    LimitRange                       limitranges                       ns limits   -              -
    Namespace                        namespaces                        -  ns       -              finalize,status -deletecollection
    Node                             nodes                             -  no       -              status
    PersistentVolume                 persistentvolumes                 -  pv       -              status
    PersistentVolumeClaim            persistentvolumeclaims            ns pvc      -              status
    Pod                              pods                              ns po       all            binding,eviction,status
    PodTemplate                      podtemplates                      ns -        -              -
    ReplicationController            replicationcontrollers            ns rc       all            scale,status
    ResourceQuota                    resourcequotas                    ns quota    -              status
    Secret                           secrets                           ns -        -              -
    Service                          services                          ns svc      all            status
    ServiceAccount                   serviceaccounts                   ns sa       -              token
""",  # noqa: E501 - a row is a line
    ("discovery.k8s.io", "v1", "discovery_v1"): """
    EndpointSlice                    endpointslices                    ns -        -              -
""",
    ("events.k8s.io", "v1", "events_v1"): """
    Event                            events                            ns ev       -              -
""",
    ("flowcontrol.apiserver.k8s.io", "v1", "flowcontrol_v1"): """
    FlowSchema                       flowschemas                       -  -        -              status
    PriorityLevelConfiguration       prioritylevelconfigurations       -  -        -              status
""",
    ("internal.apiserver.k8s.io", "v1alpha1", "apiserverinternal_v1alpha1"): """
    StorageVersion                   storageversions                   -  -        -              status
""",
    ("lifecycle.k8s.io", "v1alpha1", "lifecycle_v1alpha1"): """
    Eviction                         evictions                         ns -        -              status
    EvictionRequest                  evictionrequests                  ns -        -              status
""",
    ("networking.k8s.io", "v1", "networking_v1"): """
    IPAddress                        ipaddresses                       -  ip       -              -
    Ingress                          ingresses                         ns ing      -              status
    IngressClass                     ingressclasses                    -  -        -              -
    NetworkPolicy                    networkpolicies                   ns netpol   -              -
    ServiceCIDR                      servicecidrs                      -  -        -              status
""",
    ("node.k8s.io", "v1", "node_v1"): """
    RuntimeClass                     runtimeclasses                    -  -        -              -
""",
    ("policy", "v1", "policy_v1"): """
    PodDisruptionBudget              poddisruptionbudgets              ns pdb      -              status
""",
    ("rbac.authorization.k8s.io", "v1", "rbac_v1"): """
    ClusterRole                      clusterroles                      -  -        -              -
    ClusterRoleBinding               clusterrolebindings               -  -        -              -
    Role                             roles                             ns -        -              -
    RoleBinding                      rolebindings                      ns -        -              -
""",
    ("resource.k8s.io", "v1", "resource_v1"): """
    DeviceClass                      deviceclasses                     -  -        -              -
    DeviceTaintRule                  devicetaintrules                  -  -        -              status
    ResourceClaim                    resourceclaims                    ns -        -              status
    ResourceClaimTemplate            resourceclaimtemplates            ns -        -              -
    ResourceSlice                    resourceslices                    -  -        -              -
""",
    ("resource.k8s.io", "v1alpha3", "resource_v1alpha3"): """
    DeviceTaintRule                  devicetaintrules                  -  -        -              status
    ResourcePoolStatusRequest        resourcepoolstatusrequests        -  -        -              status
""",
    ("resource.k8s.io", "v1beta1", "resource_v1beta1"): """
    DeviceClass                      deviceclasses                     -  -        -              -
    ResourceClaim                    resourceclaims                    ns -        -              status
    ResourceClaimTemplate            resourceclaimtemplates            ns -        -              -
    ResourceSlice                    resourceslices                    -  -        -              -
""",
    ("resource.k8s.io", "v1beta2", "resource_v1beta2"): """
    DeviceClass                      deviceclasses                     -  -        -              -
    DeviceTaintRule                  devicetaintrules                  -  -        -              status
    ResourceClaim                    resourceclaims                    ns -        -              status
    ResourceClaimTemplate            resourceclaimtemplates            ns -        -              -
    ResourceSlice                    resourceslices                    -  -        -              -
""",
    ("scheduling.k8s.io", "v1", "scheduling_v1"): """
    PriorityClass                    priorityclasses                   -  pc       -              -
""",
    ("scheduling.k8s.io", "v1alpha3", "scheduling_v1alpha3"): """
    CompositePodGroup                compositepodgroups                ns -        -              status
    PodGroup                         podgroups                         ns -        -              status
    Workload                         workloads                         ns -        -              -
""",
    ("scheduling.k8s.io", "v1beta1", "scheduling_v1beta1"): """
    PodGroup                         podgroups                         ns -        -              status
    Workload                         workloads                         ns -        -              -
""",
    ("storage.k8s.io", "v1", "storage_v1"): """
    CSIDriver                        csidrivers                        -  -        -              -
    CSINode                          csinodes                          -  -        -              status
    CSIStorageCapacity               csistoragecapacities              ns -        -              -
    StorageClass                     storageclasses                    -  sc       -              -
    VolumeAttachment                 volumeattachments                 -  -        -              status
    VolumeAttributesClass            volumeattributesclasses           -  vac      -              -
""",
    ("storagemigration.k8s.io", "v1", "storagemigration_v1"): """
    StorageVersionMigration          storageversionmigrations          -  -        -              status
""",
    ("storagemigration.k8s.io", "v1beta1", "storagemigration_v1beta1"): """
    StorageVersionMigration          storageversionmigrations          -  -        -              status
""",
}

#: Kinds of this product's own, in the same columns.
_OWN: Final[dict[tuple[str, str, str], str]] = {
    ("rota.dev", "v1alpha1", "rota_v1alpha1"): """
    ClusterState                     clusterstates                     -  cstate   -              status
    NodeForecast                     nodeforecasts                     -  nf       -              status
    Pipeline                         pipelines                         ns pl       all            status
    PipelineRun                      pipelineruns                      ns plr      all            status
    RebalancePolicy                  rebalancepolicies                 -  -        -              status
    SchedulerInstance                schedulerinstances                -  -        -              status
    ShardMap                         shardmaps                         -  -        -              status
    StepRun                          stepruns                          ns -        -              status
    TuningProposal                   tuningproposals                   -  tune     -              status
""",
}

#: Subresources that speak another kind than their parent.
_OTHER_KINDS: Final = {
    "scale": ("autoscaling", "v1", "Scale", "autoscaling_v1.Scale"),
    "eviction": ("policy", "v1", "Eviction", "policy_v1.Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", "authentication_v1.TokenRequest"),
    "binding": ("", "v1", "Binding", "core_v1.Binding"),
}
#: Subresources that connect to a running thing; the models do not know them.
_CONNECTING: Final = {
    "Pod": {
        "attach": "PodAttachOptions",
        "exec": "PodExecOptions",
        "log": "Pod",
        "portforward": "PodPortForwardOptions",
        "proxy": "PodProxyOptions",
    },
    "Node": {"proxy": "NodeProxyOptions"},
    "Service": {"proxy": "ServiceProxyOptions"},
}
_READ_WRITE: Final = ("get", "patch", "update")
_SUBRESOURCE_VERBS: Final = {
    "attach": ("create", "get"),
    "binding": ("create",),
    "eviction": ("create",),
    "exec": ("create", "get"),
    "finalize": ("update",),
    "log": ("get",),
    "portforward": ("create", "get"),
    "proxy": ("create", "delete", "get", "patch", "update"),
    "token": ("create",),
}


def resource_types() -> Iterator[ResourceType]:
    """Every kind of Kubernetes in every version that the models know."""
    return _read(_TABLE)


def own_resource_types() -> Iterator[ResourceType]:
    """Every kind that is stored and that Kubernetes does not have."""
    return _read(_OWN)


def _read(table: Mapping[tuple[str, str, str], str]) -> Iterator[ResourceType]:
    for (group, version, module), lines in table.items():
        for line in lines.strip().splitlines():
            yield _resource_type(GroupVersion(group, version), module, line.split())


def _resource_type(group_version: GroupVersion, module: str, columns: list[str]) -> ResourceType:
    kind, plural, scope, short_names, categories, subresources, *verbs = columns
    own = GroupVersionKind(*group_version, kind)
    parts = [_subresource(own, module, name) for name in _items(subresources)]
    if not own.group:
        parts += [
            Subresource(name=name, kind=own._replace(kind=options), verbs=_SUBRESOURCE_VERBS[name])
            for name, options in _CONNECTING.get(kind, {}).items()
        ]
    return ResourceType(
        group=own.group,
        version=own.version,
        kind=kind,
        plural=plural,
        namespaced=scope == "ns",
        short_names=_items(short_names),
        categories=_items(categories),
        verbs=_verbs(*verbs),
        subresources={part.name: part for part in sorted(parts, key=lambda part: part.name)},
        model=f"{module}.{kind}",
    )


def _subresource(own: GroupVersionKind, module: str, name: str) -> Subresource:
    kind, model = own, f"{module}.{own.kind}"
    if name in _OTHER_KINDS:
        *other, model = _OTHER_KINDS[name]
        kind = GroupVersionKind(*other)
    return Subresource(name=name, kind=kind, verbs=_SUBRESOURCE_VERBS.get(name, _READ_WRITE), model=model)


def _verbs(column: str = "-") -> tuple[str, ...]:
    if column.startswith("-"):
        return tuple(verb for verb in ALL_VERBS if verb != column[1:])
    return _items(column)


def _items(column: str) -> tuple[str, ...]:
    return () if column == "-" else tuple(column.split(","))
