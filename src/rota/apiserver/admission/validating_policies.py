"""ValidatingAdmissionPolicies: evaluates the policies that bindings put in force.

While there is no binding, a request costs one look at an empty table. Expressions cannot wait: the answers of the
`authorizer` are found between evaluations (`api/cel/authorization.py`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rota.api import errors, selectors, users
from rota.api.cel.authorization import Answered, Asked, Unanswered
from rota.api.cel.environment import CALL_LIMIT, Outcome, Program
from rota.api.cel.values import CostExceeded
from rota.api.errors import Cause, Details
from rota.api.identifiers import GroupResource, GroupVersionKind
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES
from rota.apiserver.admission.policy_variables import LazyVariables, values
from rota.apiserver.admission.request_matching import EXEMPT, Operation, RequestMatcher, operation
from rota.apiserver.authorization.chain import Authorization
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Question, Registry
from rota.apiserver.strategies.policy_expressions import CompiledPolicy, PolicyCompiler, Validation

POLICIES: Final = GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicies")
BINDINGS: Final = GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicybindings")
#: The cost of all expressions of a policy for one binding, and of its match conditions.
_BUDGET: Final = 10_000_000
_CONDITIONS_BUDGET: Final = _BUDGET // 4
_MOST_MESSAGE_BYTES: Final = 5 * 1024
_MOST_ANNOTATION_BYTES: Final = 10 * 1024
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class _Denied(errors.Invalid):
    """A policy refused the request; the reason is the policy's."""

    def __init__(self, reason: str, message: str, details: Details) -> None:
        super().__init__(message, details=details, code=_CODES.get(reason, 422))
        self.reason = reason  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class _Decision:
    """What a validation says: empty if it holds."""

    message: str
    reason: str = ""
    #: Whether the expression failed rather than said no.
    failed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Policy:
    name: str
    fails_closed: bool
    param_kind: Mapping[str, Any] | None
    matcher: RequestMatcher
    compiled: CompiledPolicy
    #: Why it cannot be evaluated.
    error: str


@dataclass(frozen=True, slots=True, eq=False)
class _Binding:
    name: str
    policy: str
    actions: tuple[str, ...]
    param_ref: Mapping[str, Any] | None
    matcher: RequestMatcher


class _Failure(Exception):
    """The configuration of a policy or binding does not allow a decision."""


class ValidatingPolicies:
    """An `Admission` that runs after validation, and before deletions."""

    #: While there are bindings, no pod is made from a template.
    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({POLICIES, BINDINGS, NAMESPACES})

    def __init__(
        self, registry: Registry, copies: Mapping[GroupResource, WatchCache], authorization: Authorization
    ) -> None:
        self._registry: Final = registry
        self._namespaces: Final = copies[NAMESPACES]
        self._authorization: Final = authorization
        self._policies: Final[dict[str, _Policy]] = {}
        self._bindings: Final[dict[str, list[_Binding]]] = {}
        copies[POLICIES].subscribe(self._note_policy)
        copies[BINDINGS].subscribe(self._note_binding)

    @property
    def active(self) -> bool:
        """Whether there is a binding."""
        return bool(self._bindings)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit the request, or refuse it in the words of the first policy that does."""
        if not self._bindings or at.resource.group_resource in EXEMPT:
            return
        evaluation = _Evaluation(self._registry, self._namespaces, self._authorization, at, new, old)
        denied: list[tuple[_Policy, _Binding | None, _Decision]] = []
        for name, bindings in sorted(self._bindings.items()):
            policy = self._policies.get(name)
            if policy is None or not await evaluation.matches(policy.matcher):
                continue
            if policy.error:
                if policy.fails_closed:
                    denied.append((policy, None, _Decision(f"failed to configure policy: {policy.error}")))
                continue
            annotations: dict[str, list[str]] = {}
            for binding in bindings:
                if await evaluation.matches(binding.matcher):
                    denied += await evaluation.decide(policy, binding, annotations)
            for key, found in annotations.items():
                at.annotations[f"{policy.name}/{key}"] = ", ".join(found)
        if denied:
            raise _refusal(at, new or old or {}, *denied[0])

    def _note_policy(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._policies.pop((old or {})["metadata"]["name"], None)
            return
        spec, name = new.get("spec") or {}, new["metadata"]["name"]
        compiler = PolicyCompiler(new)
        compiled = compiler.compile()
        self._policies[name] = _Policy(
            name,
            spec.get("failurePolicy") != "Ignore",
            spec.get("paramKind"),
            RequestMatcher(spec.get("matchConstraints") or {}),
            compiled,
            compiler.errors[0].detail if compiler.errors else "",
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
        binding = _Binding(
            new["metadata"]["name"],
            spec.get("policyName") or "",
            tuple(spec.get("validationActions") or ()),
            spec.get("paramRef"),
            RequestMatcher(spec.get("matchResources") or {}),
        )
        bindings = [*self._bindings.get(binding.policy, ()), binding]
        self._bindings[binding.policy] = sorted(bindings, key=lambda one: one.name)


class PoliciesOnDeletion:
    """An `Admission` that applies validating policies to deletions, which have no validation to run after."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, policies: ValidatingPolicies) -> None:
        self._policies: Final = policies

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit everything but deletions that a policy refuses."""
        if new is None:
            await self._policies.admit(at, new, old)


class _Evaluation:
    """One request."""

    def __init__(
        self,
        registry: Registry,
        namespaces: WatchCache,
        authorization: Authorization,
        at: Attributes,
        new: Object | None,
        old: Object | None,
    ) -> None:
        self._registry: Final = registry
        self._namespaces: Final = namespaces
        self._authorization: Final = authorization
        self._at: Final = at
        self._new: Final = new
        self._old: Final = old
        self._what: Final[Operation] = operation(new, old)
        self._served: Final = registry.scheme.versions(at.resource.group_resource)
        self._namespace: Object | None = None
        self._answers: Final[dict[Asked, Answered]] = {}

    async def matches(self, matcher: RequestMatcher) -> bool:
        """Whether a policy or binding is about the request."""
        if not matcher.matches_rules(self._at, self._what, self._served):
            return False
        namespace = await self._own_namespace() if matcher.needs_namespace(self._at) else None
        return matcher.matches_labels(self._at, self._new, self._old, namespace)

    async def _own_namespace(self) -> Object | None:
        at = self._at
        if self._namespace is None and at.namespace and at.resource.group_resource != NAMESPACES:
            self._namespace = self._namespaces.get("", at.namespace)
            if self._namespace is None:
                found = await self._registry.find(self._registry.resource(NAMESPACES), "", at.namespace)
                self._namespace = found.object if found is not None else None
        return self._namespace

    async def decide(
        self, policy: _Policy, binding: _Binding, annotations: dict[str, list[str]]
    ) -> list[tuple[_Policy, _Binding | None, _Decision]]:
        """The refusals of a policy by a binding that denies; other actions are carried out."""
        try:
            all_params = await self._params(policy, binding)
        except _Failure as error:
            if not policy.fails_closed:
                return []
            return [(policy, binding, _Decision(f"failed to configure binding: {error}"))]
        denied: list[tuple[_Policy, _Binding | None, _Decision]] = []
        for params in all_params:
            decisions, failed = await self._validate(policy, params, annotations)
            for number, decision in enumerate(decisions):
                if decision.message and (policy.fails_closed or not decision.failed):
                    denied += self._act(policy, binding, number, decision)
            denied += [(policy, binding, one) for one in failed if policy.fails_closed]
        return denied

    def _act(
        self, policy: _Policy, binding: _Binding, number: int, decision: _Decision
    ) -> list[tuple[_Policy, _Binding | None, _Decision]]:
        if "Audit" in binding.actions:
            failure = {
                "message": decision.message,
                "policy": policy.name,
                "binding": binding.name,
                "expressionIndex": number,
                "validationActions": list(binding.actions),
            }
            text = json.dumps([failure], separators=(",", ":"), ensure_ascii=False)
            self._at.annotations.setdefault("validation.policy.admission.k8s.io/validation_failure", text)
        if "Warn" in binding.actions:
            where = f"'{policy.name}' with binding '{binding.name}'"
            self._at.warn(f"Validation failed for ValidatingAdmissionPolicy {where}: {decision.message}")
        return [(policy, binding, decision)] if "Deny" in binding.actions else []

    async def _params(self, policy: _Policy, binding: _Binding) -> Sequence[Object | None]:
        kind, ref = policy.param_kind, binding.param_ref
        if kind is None or ref is None:
            return [None]
        group, _, version = (kind.get("apiVersion") or "").rpartition("/")
        resource = self._registry.scheme.by_kind(GroupVersionKind(group, version, kind.get("kind") or ""))
        if resource is None:
            shown = f"{kind.get('apiVersion') or ''}, Kind={kind.get('kind') or ''}"
            raise _Failure(f"paramKind kind `{shown}` not known")
        namespace = ""
        if resource.namespaced:
            namespace = ref.get("namespace") or self._at.namespace
            if not namespace:
                raise _Failure("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        elif ref.get("namespace"):
            raise _Failure("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if ref.get("name"):
            one = await self._registry.find(resource, namespace, ref["name"])
            found = [one.object] if one is not None else []
        elif ref.get("selector") is not None:
            selector = selectors.from_object(ref["selector"])
            listed = await self._registry.list(resource, namespace or None)
            found = [one.object for one in listed if selector.matches(one.object["metadata"].get("labels"))]
        else:
            raise _Failure("one of name or selector must be provided")
        if not found and ref.get("parameterNotFoundAction") == "Deny":
            raise _Failure("no params found for policy binding with `Deny` parameterNotFoundAction")
        return found

    async def _validate(
        self, policy: _Policy, params: Object | None, annotations: dict[str, list[str]]
    ) -> tuple[list[_Decision], list[_Decision]]:
        """The decisions of a policy with a parameter, and the errors of its audit annotations."""
        compiled, namespace = policy.compiled, await self._own_namespace()
        known = values(self._at, self._what, self._new, self._old, namespace, self._answers)
        known["params"] = params
        failures = []
        for _, condition in compiled.conditions:
            outcome = await self._evaluated(condition, known, _CONDITIONS_BUDGET)
            if outcome.error is not None:
                failures.append(_Decision(_shown(condition.text, outcome), failed=True))
            elif outcome.value is not True:
                return [], []
        if failures:
            return failures[:1], []
        variables = LazyVariables(compiled.variables, known)
        known["variables"] = variables
        budget = _Budget(_BUDGET, variables)
        decisions = [await self._decision(one, known, budget) for one in compiled.validations]
        failed = []
        for key, program in compiled.annotations:
            outcome = await self._evaluated(program, known, budget.left)
            budget.spend(outcome)
            if outcome.error is not None:
                failed.append(_Decision(_shown(program.text, outcome), failed=True))
            elif isinstance(outcome.value, str) and outcome.value.strip():
                text = outcome.value.strip().encode()[:_MOST_ANNOTATION_BYTES].decode(errors="ignore")
                found = annotations.setdefault(key, [])
                if text not in found:
                    found.append(text)
        return decisions, failed

    async def _decision(self, validation: Validation, known: Mapping[str, Any], budget: "_Budget") -> _Decision:
        outcome = await self._evaluated(validation.program, known, budget.left)
        budget.spend(outcome)
        if budget.left < 0:
            return _Decision(_OUT_OF_BUDGET, failed=True)
        if outcome.error is not None:
            return _Decision(_shown(validation.program.text, outcome), failed=True)
        if outcome.value is True:
            return _Decision("")
        message = ""
        if validation.message is not None:
            said = await self._evaluated(validation.message, known, budget.left)
            budget.spend(said)
            if isinstance(said.value, str):
                message = said.value.strip()
                if len(message.encode()) > _MOST_MESSAGE_BYTES or "\n" in message:
                    message = ""
        declared = validation.declared
        message = message or (declared.get("message") or "").strip()
        shown = message or f"failed expression: {validation.program.text.strip()}"
        return _Decision(shown, declared.get("reason") or "Invalid")

    async def _evaluated(self, program: Program, known: Mapping[str, Any], budget: int) -> Outcome:
        while True:
            try:
                return program.evaluate(known, min(CALL_LIMIT, max(budget, 0)))
            except Unanswered as open_question:
                self._answers[open_question.asked] = await self._answer(open_question.asked)

    async def _answer(self, asked: Asked) -> Answered:
        user = self._at.user
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
        verdict = await self._authorization.authorize(question)
        return Answered(allowed=verdict.allowed, reason=verdict.reason)


class _Budget:
    """The cost that is left; variables count when they are first read."""

    def __init__(self, budget: int, variables: LazyVariables) -> None:
        self.left = budget
        self._variables: Final = variables
        self._counted = 0

    def spend(self, outcome: Outcome) -> None:
        """Subtract what an evaluation has cost."""
        self.left -= outcome.cost + self._variables.cost - self._counted
        self._counted = self._variables.cost


def _shown(text: str, outcome: Outcome) -> str:
    if isinstance(outcome.error, CostExceeded):
        return _OUT_OF_BUDGET
    return f"expression '{text}' resulted in error: {outcome.error}"


def _refusal(at: Attributes, obj: Object, policy: _Policy, binding: _Binding | None, decision: _Decision) -> _Denied:
    by = f" with binding '{binding.name}'" if binding is not None else ""
    message = f"ValidatingAdmissionPolicy '{policy.name}'{by} denied request: {decision.message}"
    name = at.name or (obj.get("metadata") or {}).get("name") or ""
    plain = errors.forbidden(at.resource.group_resource, name, message)
    details = Details(name=name, group=at.resource.group, kind=at.resource.plural, causes=(Cause(message=message),))
    return _Denied(decision.reason or "Invalid", plain.message, details)
