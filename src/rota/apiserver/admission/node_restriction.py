"""Node restriction: a node changes only its own node, lease, pod statuses and mirror pods, and nothing that attracts
pods.

The node authorizer allows requests of nodes where it cannot see the object; this plugin checks the object. Rules and
messages are upstream's (`plugin/pkg/admission/noderestriction`, 1.36); tokens for pods are in `node_tokens`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from rota.api import errors, gotext, meta
from rota.api.identifiers import GroupResource
from rota.apiserver.admission import node_tokens
from rota.apiserver.authorization.nodes import identity, references
from rota.apiserver.authorization.nodes.authorizer import LEASES
from rota.apiserver.interfaces import (
    REQUESTER,
    Attributes,
    Authorizer,
    Object,
    Registry,
    Reply,
    Stream,
    SubresourceHandler,
    SubresourceRequest,
    Tunnel,
)
from rota.pki import signing_requests

PODS: Final = GroupResource("", "pods")
NODES: Final = GroupResource("", "nodes")
#: Labels of Kubernetes' own that a node may set on itself.
_OWN_LABELS: Final = frozenset({
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
})  # fmt: skip
_OWN_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_NODE_SIGNERS: Final = frozenset({"kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"})
_CLAIM_STATUS: Final = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")

_Rule: TypeAlias = Callable[[str, Attributes, Object | None, Object | None], Awaitable[None]]


class NodeRestriction:
    """Checks what nodes write; `handler` wraps handlers of subresources with the same check."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({REQUESTER})

    def __init__(self, registry: Registry, authorizer: Authorizer) -> None:
        self._registry: Final = registry
        self._authorizer: Final = authorizer
        self._rules: Final[Mapping[GroupResource, _Rule]] = {
            PODS: self._pod,
            NODES: _node,
            GroupResource("", references.CLAIMS): _claim,
            GroupResource("", references.ACCOUNTS): self._account,
            GroupResource("coordination.k8s.io", "leases"): _lease,
            GroupResource("storage.k8s.io", "csinodes"): _csi_node,
            GroupResource("resource.k8s.io", "resourceslices"): _slice,
            GroupResource("rota.dev", "nodeforecasts"): _forecast,
            GroupResource("certificates.k8s.io", "certificatesigningrequests"): _signing_request,
        }

    def handler(self, inner: SubresourceHandler) -> SubresourceHandler:
        """A subresource's handler that nodes can use for their own objects only."""
        return _Restricted(self, inner)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Forbidden if a node writes an object that is not its own."""
        node = identity.node_of(at.user)
        if node is None:
            return
        if not node:
            raise forbidden(at, new, f"could not determine node from user {gotext.quote(at.user.name)}")
        rule = self._rules.get(at.resource.group_resource)
        if rule is not None:
            await rule(node, at, new, old)

    async def _pod(self, node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
        match at.subresource:
            case "":
                await self._whole_pod(node, at, new, old)
            case "status":
                _pod_status(node, at, new, old)
            case "eviction":
                pod = old or (await self._registry.read(self._registry.resource(PODS), at.namespace, at.name)).object
                if _node_of(pod) != node:
                    why = f"node {node} can only evict pods with spec.nodeName set to itself"
                    raise forbidden(at, new, why)
            case other:
                why = f"unexpected pod subresource {gotext.quote(other)}, only 'status' and 'eviction' are allowed"
                raise forbidden(at, new, why)

    async def _whole_pod(self, node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
        quoted = gotext.quote(node)
        if new is None:
            if _node_of(old) != node:
                raise forbidden(at, new, f"node {quoted} can only delete pods with spec.nodeName set to itself")
        elif old is not None:
            why = f'unexpected operation "UPDATE", node {quoted} can only create and delete mirror pods'
            raise forbidden(at, new, why)
        else:
            why = _wrong_mirror(node, new) or await self._wrong_owner(node, new) or _references(node, new)
            if why:
                raise forbidden(at, new, why)

    async def _wrong_owner(self, node: str, pod: Object) -> str:
        quoted = f"node {gotext.quote(node)}"
        owners = meta.owner_references(pod)
        if len(owners) > 1:
            return f"{quoted} can only create pods with a single owner reference set to itself"
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            return f"{quoted} can only create pods with an owner reference set to itself"
        if not owner.get("controller"):
            return f"{quoted} can only create pods with a controller owner reference set to itself"
        if owner.get("blockOwnerDeletion"):
            return f"{quoted} must not set blockOwnerDeletion on an owner reference"
        live = await self._registry.read(self._registry.resource(NODES), "", node)
        if owner.get("uid") != meta.uid(live.object):
            return f"node {node} UID mismatch: expected {owner.get('uid', '')} got {meta.uid(live.object)}"
        return ""

    async def _account(self, node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
        if at.subresource != "token" or new is None or old is not None:
            return
        why = await node_tokens.wrong(node, at, new, self._registry, self._authorizer)
        if why:
            raise forbidden(at, new, why)


class _Restricted:
    """A handler behind the restriction."""

    def __init__(self, restriction: NodeRestriction, inner: SubresourceHandler) -> None:
        self._restriction: Final = restriction
        self._inner: Final = inner

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply | Stream | Tunnel:
        """See `SubresourceHandler.handle`."""
        if request.body is not None:
            await self._restriction.admit(request.at, request.body, None)
        return await self._inner.handle(request, registry)


def forbidden(at: Attributes, new: Object | None, why: str) -> errors.Forbidden:
    """A refusal that names the object as far as its name is known."""
    metadata = (new or {}).get("metadata") or {}
    name = at.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    return errors.forbidden(at.resource.group_resource, name, why)


def _node_of(pod: Object | None) -> str:
    return ((pod or {}).get("spec") or {}).get("nodeName") or ""


def _wrong_mirror(node: str, pod: Object) -> str:
    quoted = gotext.quote(node)
    if references.MIRROR not in meta.annotations(pod):
        annotation = gotext.quote(references.MIRROR)
        return f"pod does not have {annotation} annotation, node {quoted} can only create mirror pods"
    if _node_of(pod) != node:
        return f"node {quoted} can only create pods with spec.nodeName set to itself"
    return ""


def _references(node: str, pod: Object) -> str:
    """What a mirror pod references, which its node could then read."""
    volumes = pod["spec"].get("volumes") or ()
    projected = [source for one in volumes for source in (one.get("projected") or {}).get("sources") or ()]
    found = {
        "a service account": pod["spec"].get("serviceAccountName"),
        "secrets": any(references.secrets(pod)),
        "configmaps": any(references.config_maps(pod)),
        "clustertrustbundles": any(source.get("clusterTrustBundle") for source in projected),
        "persistentvolumeclaims": any(one.get("persistentVolumeClaim") for one in volumes),
        "resourceclaims": pod["spec"].get("resourceClaims"),
    }
    which = next((what for what, there in found.items() if there), None)
    return f"node {gotext.quote(node)} can not create pods that reference {which}" if which else ""


def _pod_status(node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
    quoted = f"node {gotext.quote(node)}"
    if new is None or old is None:
        raise forbidden(at, new, "unexpected operation")
    if _node_of(old) != node:
        why = "can only update pod status for pods with spec.nodeName set to itself"
        raise forbidden(at, new, f"{quoted} {why}")
    if meta.labels(new) != meta.labels(old):
        raise forbidden(at, new, f"{quoted} cannot update labels through pod status")
    claims = [((one.get("status") or {}).get("resourceClaimStatuses") or []) for one in (new, old)]
    if claims[0] != claims[1]:
        raise forbidden(at, new, f"{quoted} cannot update resource claim statues")


async def _node(node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
    quoted = gotext.quote(node)
    name = at.name or meta.name(new or {})
    if name != node:
        raise forbidden(at, new, f"node {quoted} is not allowed to modify node {gotext.quote(name)}")
    if new is None:
        return
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    labels = _foreign_labels(meta.labels(new), meta.labels(old) if old is not None else {})
    if old is None:
        if spec.get("configSource"):
            raise forbidden(at, new, f"node {quoted} is not allowed to create pods with a non-nil configSource")
        if labels:
            raise forbidden(at, new, f"node {quoted} is not allowed to set the following labels: {', '.join(labels)}")
        return
    if spec.get("configSource") and spec["configSource"] != before.get("configSource"):
        raise forbidden(at, new, f"node {quoted} is not allowed to update configSource to a new non-nil configSource")
    if (spec.get("taints") or []) != (before.get("taints") or []):
        raise forbidden(at, new, f"node {quoted} is not allowed to modify taints")
    if list(meta.owner_references(new)) != list(meta.owner_references(old)):
        raise forbidden(at, new, f"node {quoted} is not allowed to modify ownerReferences")
    if labels:
        raise forbidden(at, new, f"is not allowed to modify labels: {', '.join(labels)}")


def _foreign_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """Changed labels that the node may not set."""
    changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
    return sorted(key for key in changed if not _may_set(key))


def _may_set(label: str) -> bool:
    domain = label.partition("/")[0] if "/" in label else ""
    # node-restriction.kubernetes.io is one of these prefixes: administrators isolate nodes with it
    of_kubernetes = _in_domain(domain, "kubernetes.io") or _in_domain(domain, "k8s.io")
    return not of_kubernetes or label in _OWN_LABELS or any(_in_domain(domain, own) for own in _OWN_DOMAINS)


def _in_domain(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


async def _claim(node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
    if at.subresource != "status":
        raise forbidden(at, new, "may only update PVC status")
    if new is None or old is None:
        raise forbidden(at, new, "unexpected operation")
    if _but_sizes(new) != _but_sizes(old):
        quoted = gotext.quote(node)
        why = f"node {quoted} is not allowed to update fields other than status.quantity and status.conditions"
        raise forbidden(at, new, why)


def _but_sizes(claim: Object) -> dict[str, Any]:
    """A claim without the fields that its node may report, and without those that change with every write."""
    status = {name: value for name, value in (claim.get("status") or {}).items() if name not in _CLAIM_STATUS}
    metadata = {
        name: value for name, value in claim["metadata"].items() if name not in {"resourceVersion", "managedFields"}
    }
    return {**claim, "metadata": metadata, "status": status}


async def _lease(node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
    if at.namespace != LEASES:
        raise forbidden(at, new, f"can only access leases in the {gotext.quote(LEASES)} system namespace")
    if (at.name or meta.name(new or {})) != node:
        raise forbidden(at, new, "can only access node lease with the same name as the requesting node")


async def _csi_node(node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
    if (at.name or meta.name(new or {})) != node:
        raise forbidden(at, new, "can only access CSINode with the same name as the requesting node")


async def _forecast(node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
    if (at.name or meta.name(new or {})) != node:
        raise forbidden(at, new, "can only access NodeForecast with the same name as the requesting node")


async def _slice(node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
    if new is not None and old is not None:
        return  # the authorizer checks the owner
    if ((new or old or {}).get("spec") or {}).get("nodeName") != node:
        what = "create" if new is not None else "delete"
        raise forbidden(at, new, f"can only {what} ResourceSlice with the same NodeName as the requesting node")


async def _signing_request(node: str, at: Attributes, new: Object | None, old: Object | None) -> None:
    spec = (new or {}).get("spec") or {}
    if new is None or old is not None or spec.get("signerName") not in _NODE_SIGNERS:
        return
    try:
        asked = signing_requests.read(node_tokens.decoded(spec.get("request") or ""))
    except ValueError as error:
        raise forbidden(at, new, f"unable to parse csr: {error}") from None
    if asked.subject.common_name != f"{identity.PREFIX}{node}":
        raise forbidden(at, new, f"can only create a node CSR with CN={identity.PREFIX}{node}")
