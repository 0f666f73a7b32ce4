"""One request as policies and webhooks of users see it: its objects in a version, its namespace, and expressions on it.

Policies and webhooks see a projection (`scale`) as its own kind, and the version of a resource that their rules name.
What they change is written back to the object that the server stores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, gotext, schemas, users
from rota.api.cel.authorization import Answered, Asked, Unanswered
from rota.api.cel.environment import CALL_LIMIT, Outcome, Program
from rota.api.cel.values import CostExceeded
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.api.patches import json_values
from rota.api.patches import schemas as merging
from rota.api.patches.schemas import TypeSchema
from rota.apiserver import bodies, conversions
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES
from rota.apiserver.admission.policy_variables import values
from rota.apiserver.admission.request_matching import Operation, RequestMatcher, operation
from rota.apiserver.authorization.chain import Authorization
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import (
    Attributes,
    Conversion,
    Object,
    Projection,
    Question,
    Registry,
    SchemaLookup,
    StrategyLookup,
)

#: The cost of all expressions of a policy for one binding, and of its match conditions.
BUDGET: Final = 10_000_000
CONDITIONS_BUDGET: Final = BUDGET // 4
OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_EVENTS: Final = (GroupResource("", "events"), GroupResource("events.k8s.io", "events"))
#: Set by the registry before admission, and by stock servers after mutating admission.
_GIVEN_LATER: Final = ("uid", "creationTimestamp")
_WRONG_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewContext:
    """What the review of requests reads."""

    registry: Registry
    namespaces: WatchCache
    authorization: Authorization
    strategy: StrategyLookup
    custom_schema: SchemaLookup
    projections: Mapping[str, Projection]
    conversion: Callable[[ResourceType], Conversion | None] = lambda _: None


class ReviewedRequest:
    """A request; `new` is None for deletions, `old` for creations."""

    def __init__(
        self,
        context: ReviewContext,
        at: Attributes,
        new: Object | None,
        old: Object | None,
        *,
        what: Operation | None = None,
        mutating: bool = False,
    ) -> None:
        """`what` is given for operations that do not follow from the objects."""
        self.at: Final = at
        self.what: Final[Operation] = what or operation(new, old)
        self._context: Final = context
        self._mutating: Final = mutating
        self._stored: Final = new
        projection = context.projections.get(at.subresource)
        self._projection: Final = projection
        if projection is not None:
            self._new = None if new is None else projection.project(new, at.resource)
            self._old = None if old is None else projection.project(old, at.resource)
        else:
            self._new, self._old = new, old
        if mutating and new is not None and self._is_creation:
            self._new = self._before_storage(new)
        self._served: Final = _served(context.registry, at.resource)
        self._namespace: Object | None = None
        self._answers: Final[dict[Asked, Answered]] = {}

    @property
    def _is_creation(self) -> bool:
        return self.what is Operation.CREATE and not self.at.subresource

    @property
    def name(self) -> str:
        """The name of the object; empty if it is not known yet."""
        if self.at.verb == "deletecollection":
            return ""
        return self.at.name or ((self._new or {}).get("metadata") or {}).get("name") or ""

    @property
    def refused_name(self) -> str:
        """What a refusal calls the object: the server has not chosen a name for a new one yet."""
        return self.name or ((self._new or {}).get("metadata") or {}).get("generateName") or "Unknown"

    @property
    def object(self) -> Object | None:
        """The new object in the version of the request; not to be changed."""
        return self._new

    async def shown_as(self, matcher: RequestMatcher) -> ResourceType | None:
        """The version in which a policy, binding or webhook sees the request; None if it is not about it."""
        resource = matcher.shown_as(self.at, self.what, self._served)
        if resource is None:
            return None
        namespace = await self.namespace() if matcher.needs_namespace(self.at) else None
        return resource if matcher.matches_labels(self.at, self._new, self._old, namespace) else None

    async def namespace(self) -> Object | None:
        """The namespace of the request's object."""
        at, registry = self.at, self._context.registry
        if self._namespace is None and at.namespace and at.resource.group_resource != NAMESPACES:
            self._namespace = self._context.namespaces.get("", at.namespace)
            if self._namespace is None:
                found = await registry.find(registry.resource(NAMESPACES), "", at.namespace)
                self._namespace = found.object if found is not None else None
        return self._namespace

    async def objects(self, resource: ResourceType) -> tuple[Object | None, Object | None]:
        """The new and the old object in a version of the resource; they are not to be changed."""
        return await self._in_version(self._new, resource), await self._in_version(self._old, resource)

    async def _in_version(self, obj: Object | None, resource: ResourceType) -> Object | None:
        if obj is None or resource == self.at.resource or obj.get("apiVersion") != self.at.resource.api_version:
            return obj
        return await self._converted(json_values.copy(obj), resource)

    async def _converted(self, obj: Object, resource: ResourceType) -> Object:
        """The object in a version of its kind; a webhook is not shown, and does not change, the resourceVersion."""
        conversion = self._context.conversion(resource)
        if conversion is None:
            return conversions.convert(obj, resource.api_version)
        (converted,) = await conversion.convert([obj], resource.api_version)
        revision = obj["metadata"].get("resourceVersion")
        if revision is None:
            return converted
        return {**converted, "metadata": {**converted["metadata"], "resourceVersion": revision}}

    async def variables(self, resource: ResourceType) -> dict[str, Any]:
        """The variables of expressions, without parameters."""
        new, old = await self.objects(resource)
        return values(
            self.at, self.what, new, old, await self.namespace(), self._answers, name=self.name, shown=resource
        )

    def merge_schema(self, resource: ResourceType) -> TypeSchema:
        """How apply configurations are merged into the new object in a version of the resource."""
        part = self.at.resource.subresources.get(self.at.subresource)
        kind = part.kind if part is not None else resource.gvk
        if kind == self.at.resource.gvk:
            kind = resource.gvk
        if kind == resource.gvk and resource.custom:
            return self._context.custom_schema(resource).merge_schema
        return merging.for_kind(kind.api_version, kind.kind) or merging.DEDUCED

    async def change(self, changed: Any, resource: ResourceType, *, strict: bool = False) -> bool:
        """Replace the new object by one in a version of the resource; whether that changes it.

        InternalError if it does not have the shape of its kind, or, if `strict`, has unknown fields.
        """
        assert self._new is not None, "only an object that exists is changed"
        at, before = self.at, self._new
        if not isinstance(changed, dict):
            raise errors.internal_error("the changed object is not an object")
        part = at.resource.subresources.get(at.subresource)
        is_whole = part is None or part.kind == at.resource.gvk
        model = resource.model if is_whole else part.model if part is not None else None
        unknown: list[str] = []
        try:
            if model is not None:
                changed, unknown = schemas.clean(changed, model)
            elif is_whole and resource.custom:
                changed, _ = bodies.clean_custom(changed, self._context.custom_schema(resource))
        except (schemas.SchemaError, RecursionError) as error:
            raise errors.internal_error(str(error)) from None
        if strict and unknown:
            shown = ", ".join(f"unknown field {gotext.quote(one)}" for one in unknown)
            raise errors.internal_error(f"strict decoding error: {shown}")
        if is_whole and resource != at.resource:
            changed = await self._converted(changed, at.resource)
        if is_whole and "metadata" in before:
            bodies.tidy(changed.setdefault("metadata", {}))
            strategy = self._context.strategy(at.resource)
            if not at.subresource:
                strategy.default(changed)
            elif at.subresource == "status":
                strategy.default_status(changed)
        if changed == before:
            return False
        self._new = changed
        self._write_back()
        return True

    def _write_back(self) -> None:
        stored, changed = self._stored, self._new
        assert stored is not None, "only an object that exists is changed"
        assert changed is not None, "only an object that exists is changed"
        if self._projection is not None:
            wrong = self._projection.validate(changed)
            if wrong:
                part = self.at.resource.subresources[self.at.subresource]
                raise errors.invalid(part.kind.group_kind, self.at.name, wrong)
            result = self._projection.inject(json_values.copy(stored), changed, self.at.resource)
        else:
            result = json_values.copy(changed)
            if self._is_creation and "metadata" in stored:
                self._complete(result["metadata"], stored["metadata"])
        stored.clear()
        stored.update(result)

    def _complete(self, metadata: Object, before: Object) -> None:
        """Restore what the registry has set in a new object."""
        for name in _GIVEN_LATER:
            if name in before:
                metadata[name] = before[name]
        if not metadata.get("name"):
            metadata["name"] = before.get("name", "")
        if metadata.get("namespace") != before.get("namespace"):
            raise errors.bad_request(_WRONG_NAMESPACE)

    def _before_storage(self, new: Object) -> Object:
        metadata = {name: item for name, item in (new.get("metadata") or {}).items() if name not in _GIVEN_LATER}
        if self.at.generated_name:
            metadata.pop("name", None)
        return {**new, "metadata": metadata}

    async def unmet(
        self, conditions: Sequence[tuple[str, Program]], known: Mapping[str, Any]
    ) -> tuple[bool, list[str]]:
        """Whether a match condition is false, and the errors of the others."""
        failures = []
        for _, condition in conditions:
            outcome = await self.evaluated(condition, known, CONDITIONS_BUDGET)
            if outcome.error is not None:
                failures.append(shown_error(condition.text, outcome))
            elif outcome.value is not True:
                return True, []
        return False, failures

    async def evaluated(self, program: Program, known: Mapping[str, Any], budget: int) -> Outcome:
        """The value of an expression; the answers of its `authorizer` are found between evaluations."""
        while True:
            try:
                return program.evaluate(known, min(CALL_LIMIT, max(budget, 0)))
            except Unanswered as open_question:
                self._answers[open_question.asked] = await self._answer(open_question.asked)

    async def _answer(self, asked: Asked) -> Answered:
        user = self.at.user
        if asked.account is not None:
            user = users.User(
                name=f"system:serviceaccount:{asked.account[0]}:{asked.account[1]}",
                groups=("system:serviceaccounts", f"system:serviceaccounts:{asked.account[0]}", users.AUTHENTICATED),
            )
        question = Question(
            user=user,
            verb=asked.verb,
            group=asked.group,
            resource=asked.resource,
            subresource=asked.subresource,
            namespace=asked.namespace,
            name=asked.name,
            path=asked.path,
        )
        verdict = await self._context.authorization.authorize(question)
        return Answered(allowed=verdict.allowed, reason=verdict.reason)


def shown_error(text: str, outcome: Outcome) -> str:
    """The error of an expression."""
    if isinstance(outcome.error, CostExceeded):
        return OUT_OF_BUDGET
    return f"expression '{text}' resulted in error: {outcome.error}"


def _served(registry: Registry, resource: ResourceType) -> tuple[ResourceType, ...]:
    """All versions in which the objects of a resource are served: events are served in two groups."""
    if resource.group_resource in _EVENTS:
        return tuple(one for which in _EVENTS for one in registry.scheme.versions(which))
    return registry.scheme.versions(resource.group_resource)
