"""The policies that bindings put in force, and the parameters that a binding gives to its policy.

ValidatingAdmissionPolicies and MutatingAdmissionPolicies have this in common. Tables follow the caches of policies and
bindings; expressions are compiled when a policy changes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from rota.api import selectors
from rota.api.fields import FieldError
from rota.api.identifiers import GroupVersionKind
from rota.apiserver.admission.request_matching import RequestMatcher
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry

C = TypeVar("C")

#: Compiles a policy; the errors are those of its expressions.
Compile = Callable[[Object], tuple[C, Sequence[FieldError]]]


@dataclass(frozen=True, slots=True, eq=False)
class Policy(Generic[C]):
    """A policy with its expressions."""

    name: str
    fails_closed: bool
    param_kind: Mapping[str, Any] | None
    matcher: RequestMatcher
    compiled: C
    #: Why it cannot be evaluated.
    error: str


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """What a policy applies to, with which parameters and consequences."""

    name: str
    policy: str
    #: Of bindings that validate.
    actions: tuple[str, ...]
    param_ref: Mapping[str, Any] | None
    matcher: RequestMatcher


class ConfigurationFailure(Exception):
    """The configuration of a policy or binding does not allow a decision."""


class BoundPolicies(Generic[C]):
    """The policies of one kind with their bindings, both in the order of their names."""

    def __init__(self, policies: WatchCache, bindings: WatchCache, compile_policy: Compile[C]) -> None:
        self._compile: Final = compile_policy
        self._policies: Final[dict[str, Policy[C]]] = {}
        self._bindings: Final[dict[str, list[Binding]]] = {}
        policies.subscribe(self._note_policy)
        bindings.subscribe(self._note_binding)

    def __bool__(self) -> bool:
        return bool(self._bindings)

    def __iter__(self) -> Iterator[tuple[Policy[C], Sequence[Binding]]]:
        for name, bindings in sorted(self._bindings.items()):
            policy = self._policies.get(name)
            if policy is not None:
                yield policy, bindings

    def concerns(self, plural: str, subresource: str) -> bool:
        """Whether a policy that is in force may be about a resource or subresource."""
        return any(policy.matcher.names(plural, subresource) for policy, _ in self)

    def _note_policy(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._policies.pop((old or {})["metadata"]["name"], None)
            return
        spec, name = new.get("spec") or {}, new["metadata"]["name"]
        compiled, errors = self._compile(new)
        self._policies[name] = Policy(
            name,
            spec.get("failurePolicy") != "Ignore",
            spec.get("paramKind"),
            RequestMatcher(spec.get("matchConstraints") or {}),
            compiled,
            (errors[0].detail or str(errors[0])) if errors else "",
        )

    def _note_binding(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            if obj is not None:
                name = obj["metadata"]["name"]
                for policy, bindings in list(self._bindings.items()):
                    left = [one for one in bindings if one.name != name]
                    if left:
                        self._bindings[policy] = left
                    else:
                        del self._bindings[policy]
        if new is None:
            return
        spec = new.get("spec") or {}
        binding = Binding(
            new["metadata"]["name"],
            spec.get("policyName") or "",
            tuple(spec.get("validationActions") or ()),
            spec.get("paramRef"),
            RequestMatcher(spec.get("matchResources") or {}),
        )
        bindings = [*self._bindings.get(binding.policy, ()), binding]
        self._bindings[binding.policy] = sorted(bindings, key=lambda one: one.name)


async def params(registry: Registry, at: Attributes, policy: Policy[Any], binding: Binding) -> Sequence[Object | None]:
    """The parameters for each of which a policy is evaluated; ConfigurationFailure if they cannot be found.

    A policy without parameters is evaluated once, with None.
    """
    kind, ref = policy.param_kind, binding.param_ref
    if kind is None or ref is None:
        return [None]
    group, _, version = (kind.get("apiVersion") or "").rpartition("/")
    resource = registry.scheme.by_kind(GroupVersionKind(group, version, kind.get("kind") or ""))
    if resource is None:
        shown = f"{kind.get('apiVersion') or ''}, Kind={kind.get('kind') or ''}"
        raise ConfigurationFailure(f"paramKind kind `{shown}` not known")
    namespace = ""
    if resource.namespaced:
        namespace = ref.get("namespace") or at.namespace
        if not namespace:
            why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise ConfigurationFailure(why)
    elif ref.get("namespace"):
        raise ConfigurationFailure("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if ref.get("name"):
        one = await registry.find(resource, namespace, ref["name"])
        found = [one.object] if one is not None else []
    elif ref.get("selector") is not None:
        selector = selectors.from_object(ref["selector"])
        listed = await registry.list(resource, namespace or None)
        found = [one.object for one in listed if selector.matches(one.object["metadata"].get("labels"))]
    else:
        raise ConfigurationFailure("one of name or selector must be provided")
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationFailure("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found
