"""The `authorizer` of expressions: questions are put together step by step, and `check` asks.

An evaluation cannot wait. `check` looks the answer up; if it is not known, `Unanswered` ends the evaluation, and the
caller finds the answer and evaluates again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rota.api.cel import types
from rota.api.cel.types import Type
from rota.api.cel.values import EvaluationError, no_overload


class Asked(Struct, frozen=True, kw_only=True):
    """A question: whether a user, the requester if there is no account, may do something."""

    verb: str = ""
    path: str | None = None
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    #: Namespace and name of the service account that is asked about.
    account: tuple[str, str] | None = None


class Answered(Struct, frozen=True):
    """An answer."""

    cel_type: Type = types.DECISION
    allowed: bool = False
    reason: str = ""


class Unanswered(Exception):
    """The answer to a question is needed to go on."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.asked: Final = asked


class Questions:
    """A question in the making; `cel_type` says how far it is."""

    __slots__ = ("_answers", "_asked", "cel_type")

    def __init__(self, answers: Mapping[Asked, Answered], asked: Asked, cel_type: Type = types.AUTHORIZER) -> None:
        self._answers: Final = answers
        self._asked: Final = asked
        self.cel_type: Final = cel_type

    def step(self, cel_type: Type, **parts: Any) -> "Questions":
        """The question with more of its parts."""
        if not all(isinstance(one, str | tuple) for one in parts.values()):
            raise no_overload(*parts.values())
        return Questions(self._answers, replace(self._asked, **parts), cel_type)

    def check(self, verb: Any) -> Answered:
        """The answer."""
        if not isinstance(verb, str):
            raise no_overload(verb)
        asked = replace(self._asked, verb=verb)
        found = self._answers.get(asked)
        if found is None:
            raise Unanswered(asked)
        return found


def _own(value: Any, *wanted: Type) -> Questions:
    if not isinstance(value, Questions) or value.cel_type not in wanted:
        raise no_overload(value)
    return value


def _path(one: Any, path: Any) -> Questions:
    if path == "":
        raise EvaluationError("path must not be empty")
    return _own(one, types.AUTHORIZER).step(types.PATH_CHECK, path=path)


def _resource(one: Any, resource: Any) -> Questions:
    if resource == "":
        raise EvaluationError("resource must not be empty")
    return _own(one, types.GROUP_CHECK).step(types.RESOURCE_CHECK, resource=resource)


def _account(one: Any, namespace: Any, name: Any) -> Questions:
    if not name:
        raise EvaluationError("Invalid service account name")
    if not namespace:
        raise EvaluationError("Invalid service account namespace")
    return _own(one, types.AUTHORIZER).step(types.AUTHORIZER, account=(namespace, name))


AUTHORIZATION: Final[Mapping[str, Callable[..., Any]]] = {
    "path": _path,
    "group": lambda one, group: _own(one, types.AUTHORIZER).step(types.GROUP_CHECK, group=group),
    "serviceAccount": _account,
    "resource": _resource,
    "subresource": lambda one, part: _own(one, types.RESOURCE_CHECK).step(types.RESOURCE_CHECK, subresource=part),
    "namespace": lambda one, name: _own(one, types.RESOURCE_CHECK).step(types.RESOURCE_CHECK, namespace=name),
    "name": lambda one, name: _own(one, types.RESOURCE_CHECK).step(types.RESOURCE_CHECK, name=name),
    # RBAC does not look at selectors.
    "fieldSelector": lambda one, _: _own(one, types.RESOURCE_CHECK),
    "labelSelector": lambda one, _: _own(one, types.RESOURCE_CHECK),
    "check": lambda one, verb: _own(one, types.PATH_CHECK, types.RESOURCE_CHECK).check(verb),
    "allowed": lambda one: one.allowed,
    "reason": lambda one: one.reason,
    "errored": lambda _: False,
    "error": lambda _: "",
}
