"""Which requests a policy or webhook applies to: rules, selectors and their combination."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import selectors
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.api.selectors import Selector
from rota.apiserver.interfaces import Attributes, Object

_GROUP: Final = "admissionregistration.k8s.io"
#: A policy that refused its own removal could not be removed.
EXEMPT: Final = frozenset(
    GroupResource(_GROUP, one)
    for one in (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    )
)
_NAMESPACES: Final = GroupResource("", "namespaces")


class Operation(enum.Enum):
    """What a request does to an object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


def operation(new: Object | None, old: Object | None) -> Operation:
    """The operation by what there is before and after."""
    if old is None:
        return Operation.CREATE
    return Operation.DELETE if new is None else Operation.UPDATE


class Rule:
    """A rule with operations: it names groups, versions, resources, and perhaps single objects."""

    __slots__ = ("_groups", "_names", "_operations", "_resources", "_scope", "_versions")

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._groups: Final = frozenset(declared.get("apiGroups") or ())
        self._versions: Final = frozenset(declared.get("apiVersions") or ())
        self._operations: Final = frozenset(declared.get("operations") or ())
        self._scope: Final[str] = declared.get("scope") or "*"
        self._names: Final = frozenset(declared.get("resourceNames") or ())
        self._resources: Final = [one.partition("/")[::2] for one in declared.get("resources") or ()]

    def matches(self, at: Attributes, what: Operation, resource: ResourceType) -> bool:
        """Whether the rule is about a request, if it is made for this version of its resource."""
        if not ({"*", what.value} & self._operations and {"*", resource.group} & self._groups):
            return False
        if not {"*", resource.version} & self._versions:
            return False
        if self._scope != "*" and (self._scope == "Namespaced") != resource.namespaced:
            return False
        if self._names and at.name not in self._names:
            return False
        return self.names(resource.plural, at.subresource)

    def names(self, plural: str, subresource: str) -> bool:
        """Whether the rule names a resource, or a subresource of it."""
        return any(name in ("*", plural) and part in ("*", subresource) for name, part in self._resources)


class RequestMatcher:
    """`matchConstraints` of a policy, `matchResources` of a binding."""

    def __init__(self, declared: Mapping[str, Any], *, rules: Sequence[Mapping[str, Any]] | None = None) -> None:
        """A webhook has its `rules` under another name."""
        self._exact: Final = declared.get("matchPolicy") == "Exact"
        given = declared.get("resourceRules") if rules is None else rules
        self._rules: Final = [Rule(one) for one in given or ()]
        #: A binding without rules is about everything that its policy is about; a webhook without rules about nothing.
        self._unruled: Final = rules is None
        self._excluded: Final = [Rule(one) for one in declared.get("excludeResourceRules") or ()]
        self._namespaces: Final = _selector(declared.get("namespaceSelector"))
        self._objects: Final = _selector(declared.get("objectSelector"))

    def names(self, plural: str, subresource: str) -> bool:
        """Whether a rule may be about a resource or subresource of this name, in whatever group."""
        return (self._unruled and not self._rules) or any(one.names(plural, subresource) for one in self._rules)

    def shown_as(self, at: Attributes, what: Operation, served: Sequence[ResourceType]) -> ResourceType | None:
        """The version of the request's resource that a rule names; None if no rule is about the request.

        `served` are all versions of the resource. The version of the request comes first; others count unless the match
        policy is `Exact`.
        """
        others = () if self._exact else tuple(one for one in served if one != at.resource)
        if any(one.matches(at, what, at.resource) for one in self._excluded):
            return None
        if any(rule.matches(at, what, other) for rule in self._excluded for other in others):
            return None
        if not self._rules:
            return at.resource if self._unruled else None
        if any(one.matches(at, what, at.resource) for one in self._rules):
            return at.resource
        return next((other for rule in self._rules for other in others if rule.matches(at, what, other)), None)

    def needs_namespace(self, at: Attributes) -> bool:
        """Whether the labels of the request's namespace decide."""
        return self._namespaces is not None and bool(at.namespace) and at.resource.group_resource != _NAMESPACES

    def matches_labels(self, at: Attributes, new: Object | None, old: Object | None, namespace: Object | None) -> bool:
        """Whether the selectors select the namespace and the object, as it is or as it was."""
        if self._namespaces is not None:
            if at.resource.group_resource == _NAMESPACES:
                namespace = new if new is not None else old
            if namespace is not None and not self._namespaces.matches(_labels(namespace)):
                return False
        if self._objects is None:
            return True
        labelled = (one for one in (new, old) if one is not None and "metadata" in one)
        return any(self._objects.matches(_labels(one)) for one in labelled)


def _selector(declared: Mapping[str, Any] | None) -> Selector | None:
    if not declared or not (declared.get("matchLabels") or declared.get("matchExpressions")):
        return None
    return selectors.from_object(declared)


def _labels(obj: Object) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}
