"""What a node may do, by upstream's rules and with its messages (`plugin/pkg/auth/authorizer/node`, 1.36).

Reading other objects needs a relation to the node (`relations`). Admission, which sees the object, restricts writes
further (`rota.apiserver.admission.node_restriction`). The rest is the same for all nodes and is in the role
`system:node`, which has no subjects.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from rota.api import gotext
from rota.apiserver.authorization import rules
from rota.apiserver.authorization.nodes import identity, references, relations
from rota.apiserver.authorization.nodes.relations import Relations
from rota.apiserver.authorization.policy import objects
from rota.apiserver.authorization.rules import Rule
from rota.apiserver.interfaces import NO_OPINION, Decision, Question, Verdict

LEASES: Final = "kube-node-lease"
_ALLOWED: Final = Verdict(Decision.ALLOWED)
_OWN: Final = frozenset({"get", "create", "update", "patch", "delete"})
_READ: Final = frozenset({"get", "list", "watch"})
_COLLECTION: Final = frozenset({"list", "watch", "deletecollection"})
_CHANGED: Final = frozenset({"update", "patch"})

_Rule: TypeAlias = Callable[[str, Question], Verdict]


def _no(reason: str) -> Verdict:
    return Verdict(Decision.NO_OPINION, reason)


class NodeAuthorizer:
    """Decides requests of nodes; no opinion about others."""

    def __init__(self, related: Relations) -> None:
        self._relations: Final = related
        self._uniform: Final = _uniform_rules()
        self._rules: Final[Mapping[tuple[str, str], _Rule]] = {
            ("", references.SECRETS): self._readable,
            ("", references.CONFIG_MAPS): self._readable,
            ("", references.CLAIMS): self._claim,
            ("", relations.VOLUMES): self._gettable,
            ("resource.k8s.io", references.DEVICE_CLAIMS): self._gettable,
            ("storage.k8s.io", relations.ATTACHMENTS): self._gettable,
            ("", references.ACCOUNTS): self._account,
            ("coordination.k8s.io", "leases"): _lease,
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("resource.k8s.io", relations.SLICES): self._slice,
            ("", "nodes"): _node,
            ("", relations.PODS): self._pod,
            ("rota.dev", relations.RUNS): self._gettable,
            ("rota.dev", "podstatusbatches"): _statuses,
            ("rota.dev", "nodeforecasts"): _forecast,
            ("discovery.k8s.io", "endpointslices"): _endpoints,
        }

    def decide(self, question: Question) -> Verdict:
        """The decision about a request."""
        node = identity.node_of(question.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _no(f"unknown node for user {gotext.quote(question.user.name)}")
        rule = self._rules.get((question.group, question.resource)) if question.path is None else None
        if rule is not None:
            return rule(node, question)
        return _ALLOWED if any(rules.allows(one, question) for one in self._uniform) else NO_OPINION

    def _related(self, node: str, question: Question) -> Verdict:
        if not question.name:
            return _no("No Object name found")
        if self._relations.related(node, question.resource, question.namespace, question.name):
            return _ALLOWED
        return _no(f"no relationship found between node '{node}' and this object")

    def _readable(self, node: str, question: Question) -> Verdict:
        if question.verb not in _READ:
            return _no("can only read resources of this type")
        if question.subresource:
            return _no("cannot read subresource")
        if not question.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, question)

    def _gettable(self, node: str, question: Question) -> Verdict:
        if question.verb != "get":
            return _no("can only get individual resources of this type")
        if question.subresource:
            return _no("cannot get subresource")
        return self._related(node, question)

    def _claim(self, node: str, question: Question) -> Verdict:
        if question.subresource != "status":
            return self._gettable(node, question)
        if question.verb not in _CHANGED:
            return _no("can only get/update/patch this type")
        return self._related(node, question)

    def _account(self, node: str, question: Question) -> Verdict:
        if question.verb == "get" and not question.subresource:
            return self._readable(node, question)
        if question.verb != "create" or not question.name:
            return _no("can only create tokens for individual service accounts")
        if question.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, question)

    def _slice(self, node: str, question: Question) -> Verdict:
        if question.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if question.verb == "create":
            return _ALLOWED  # admission checks the node that it names
        if question.verb in _OWN:
            return self._related(node, question)
        if question.verb not in _COLLECTION:
            return _no(
                "only the following verbs are allowed for a ResourceSlice: "
                "get, watch, list, create, update, patch, delete, deletecollection"
            )
        if question.fields.required_value("spec.nodeName") == node:
            return _ALLOWED
        return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _pod(self, node: str, question: Question) -> Verdict:
        match question.subresource, question.verb:
            case "", "get":
                return self._gettable(node, question)
            case "", "list" | "watch":
                if question.fields.required_value("spec.nodeName") == node:
                    return _ALLOWED
                if question.name:
                    return self._related(node, question)
                return _no("can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED  # admission checks the pod
        return NO_OPINION


def _lease(node: str, question: Question) -> Verdict:
    if question.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a node lease")
    if question.namespace != LEASES:
        return _no(f"can only access leases in the {gotext.quote(LEASES)} system namespace")
    if question.verb != "create" and question.name != node:
        return _no("can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _csi_node(node: str, question: Question) -> Verdict:
    if question.verb not in _OWN:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if question.subresource:
        return _no("cannot authorize CSINode subresources")
    if question.verb != "create" and question.name != node:
        return _no("can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _forecast(node: str, question: Question) -> Verdict:
    if question.verb not in _OWN - {"delete"} or (question.verb == "create" and question.subresource):
        return _no("can only get, create, update, or patch a NodeForecast")
    if question.verb != "create" and question.name != node:
        return _no("can only access NodeForecast with the same name as the requesting node")
    return _ALLOWED  # admission checks the name of a new one


def _node(node: str, question: Question) -> Verdict:
    match question.subresource, question.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOWED  # admission checks the name
        case "", "get" | "list" | "watch":
            if question.name == node:
                return _ALLOWED
            if not question.name:
                return _no(f"node '{node}' cannot read all nodes, only its own Node object")
            return _no(f"node '{node}' cannot read '{question.name}', only its own Node object")
    return NO_OPINION


def _endpoints(_: str, question: Question) -> Verdict:
    """Workers forward connections to services, as kube-proxy does with a role of its own."""
    if question.verb in _READ and not question.subresource:
        return _ALLOWED
    return _no("can only read resources of this type")


def _statuses(_: str, question: Question) -> Verdict:
    return _ALLOWED if question.verb == "create" else NO_OPINION  # admission checks each pod


def _uniform_rules() -> tuple[Rule, ...]:
    """The rules that are the same for all nodes, without the resources that this module decides."""
    role = next(one for one in objects.all_defaults() if one["metadata"]["name"] == "system:node")
    return rules.from_role(role)
