"""The variables of policies' expressions: their values for one request. Their types are in `policy_expressions`."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api.cel import types
from rota.api.cel.authorization import Answered, Asked, Questions
from rota.api.cel.environment import Program
from rota.api.cel.values import EvaluationError, ObjectValue
from rota.api.kinds import ResourceType
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES
from rota.apiserver.admission.request_matching import Operation
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies.policy_expressions import NAMESPACE_FIELDS, VARIABLES

_OPTIONS: Final = {
    Operation.CREATE: "CreateOptions",
    Operation.UPDATE: "UpdateOptions",
    Operation.DELETE: "DeleteOptions",
}


def values(
    at: Attributes,
    what: Operation,
    new: Object | None,
    old: Object | None,
    namespace: Object | None,
    answers: Mapping[Asked, Answered],
    *,
    name: str,
    shown: ResourceType,
) -> dict[str, Any]:
    """The variables of a request, without parameters; `shown` is the version in which the rules name its resource."""
    resource = at.resource
    own = Asked(
        group=resource.group, resource=resource.plural, subresource=at.subresource, namespace=at.namespace, name=at.name
    )
    return {
        "object": new,
        "oldObject": old,
        "request": request(at, what, name=name, shown=shown),
        "namespaceObject": _namespace(namespace) if namespace is not None else None,
        "authorizer": Questions(answers, Asked()),
        "authorizer.requestResource": Questions(answers, own, types.RESOURCE_CHECK),
    }


def request(at: Attributes, what: Operation, *, name: str, shown: ResourceType) -> dict[str, Any]:
    """The request as expressions and webhooks see it, without the objects."""
    user: dict[str, Any] = {"username": at.user.name, "groups": list(at.user.groups)}
    if at.user.uid:
        user["uid"] = at.user.uid
    user["extra"] = {key: list(each) for key, each in at.user.extra.items()}
    namespace = name if at.resource.group_resource == NAMESPACES else at.namespace
    return {
        "kind": _kind(shown, at.subresource),
        "resource": _resource(shown),
        **({"subResource": at.subresource} if at.subresource else {}),
        "requestKind": _kind(at.resource, at.subresource),
        "requestResource": _resource(at.resource),
        **({"requestSubResource": at.subresource} if at.subresource else {}),
        **({"name": name} if name else {}),
        **({"namespace": namespace} if namespace else {}),
        "operation": what.value,
        "userInfo": user,
        "dryRun": at.dry_run,
        "options": options(at, what),
    }


def options(at: Attributes, what: Operation) -> Object | None:
    """The parameters of a request as an object; None for connections."""
    if what is Operation.CONNECT:
        return None
    head = {"kind": _OPTIONS[what], "apiVersion": "meta.k8s.io/v1"}
    if what is Operation.DELETE:
        return {**head, **(at.delete_options or {})}
    given = {name: at.parameters[name] for name in ("fieldManager", "fieldValidation") if at.parameters.get(name)}
    return {**head, **({"dryRun": ["All"]} if at.dry_run else {}), **given}


def _kind(resource: ResourceType, subresource: str) -> dict[str, str]:
    part = resource.subresources.get(subresource)
    gvk = part.kind if part is not None else resource.gvk
    return {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}


def _resource(resource: ResourceType) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _namespace(namespace: Object) -> dict[str, Any]:
    """What expressions see of a namespace."""
    metadata = namespace.get("metadata") or {}
    return {
        "metadata": {name: value for name, value in metadata.items() if name in NAMESPACE_FIELDS},
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }


class LazyVariables(ObjectValue):
    """The `variables` of a policy: each is evaluated when an expression first reads it; `cost` is the sum."""

    __slots__ = ("_failed", "_programs", "_values", "cost")

    def __init__(self, programs: Mapping[str, Program], known: Mapping[str, Any]) -> None:
        super().__init__(VARIABLES.name)
        self._programs: Final = programs
        self._values: Final = known
        self._failed: Final[dict[str, EvaluationError]] = {}
        self.cost = 0

    def __contains__(self, name: object) -> bool:
        return name in self._programs

    def get(self, name: str, default: Any = None, /) -> Any:
        """The value of a variable."""
        if name in self._failed:
            raise self._failed[name]
        if name not in self.keys():
            program = self._programs.get(name)
            if program is None:
                return default
            outcome = program.evaluate({**self._values, "variables": self})
            self.cost += outcome.cost
            if outcome.error is not None:
                self._failed[name] = EvaluationError(f'composited variable "{name}" fails to evaluate: {outcome.error}')
                raise self._failed[name]
            self[name] = outcome.value
        return super().get(name, default)
