"""ValidatingAdmissionPolicies: evaluates the policies that bindings put in force.

While there is no binding, a request costs one look at an empty table. Expressions cannot wait: the answers of the
`authorizer` are found between evaluations (`api/cel/authorization.py`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rota.api import errors
from rota.api.cel.environment import Outcome
from rota.api.errors import Cause, Details
from rota.api.fields import FieldError
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.admission import bound_policies
from rota.apiserver.admission.bound_policies import Binding, BoundPolicies, ConfigurationFailure, Policy
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES
from rota.apiserver.admission.policy_variables import LazyVariables
from rota.apiserver.admission.request_matching import EXEMPT
from rota.apiserver.admission.reviewed_request import (
    BUDGET,
    OUT_OF_BUDGET,
    ReviewContext,
    ReviewedRequest,
    shown_error,
)
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry
from rota.apiserver.strategies.policy_expressions import CompiledPolicy, PolicyCompiler, Validation

POLICIES: Final = GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicies")
BINDINGS: Final = GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicybindings")
_MOST_MESSAGE_BYTES: Final = 5 * 1024
_MOST_ANNOTATION_BYTES: Final = 10 * 1024
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class _Denied(errors.Invalid):
    """A policy refused the request; the reason is the policy's."""

    def __init__(self, reason: str, message: str, details: Details) -> None:
        super().__init__(message, details=details, code=_CODES.get(reason, 422))
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Decision:
    """What a validation says: empty if it holds."""

    message: str
    reason: str = ""
    #: Whether the expression failed rather than said no.
    failed: bool = False


_Policy = Policy[CompiledPolicy]


class ValidatingPolicies:
    """An `Admission` that runs after validation, and before deletions."""

    #: While there are bindings, no pod is made from a template.
    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({POLICIES, BINDINGS, NAMESPACES})

    def __init__(self, context: ReviewContext, copies: Mapping[GroupResource, WatchCache]) -> None:
        self._context: Final = context
        self._policies: Final = BoundPolicies(copies[POLICIES], copies[BINDINGS], _compiled)

    @property
    def active(self) -> bool:
        """Whether there is a binding."""
        return bool(self._policies)

    def concerns(self, plural: str, subresource: str) -> bool:
        """Whether a policy that is in force may be about a resource or subresource."""
        return self._policies.concerns(plural, subresource)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit the request, or refuse it in the words of the first policy that does."""
        if not self._policies or at.resource.group_resource in EXEMPT:
            return
        await self.review(ReviewedRequest(self._context, at, new, old), new or old or {})

    async def review(self, request: ReviewedRequest, obj: Object) -> None:
        """Admit a request about an object."""
        at = request.at
        evaluation = _Evaluation(self._context.registry, request)
        denied: list[tuple[_Policy, Binding | None, _Decision]] = []
        for policy, bindings in self._policies:
            resource = await request.shown_as(policy.matcher)
            if resource is None:
                continue
            if policy.error:
                if policy.fails_closed:
                    denied.append((policy, None, _Decision(f"failed to configure policy: {policy.error}")))
                continue
            annotations: dict[str, list[str]] = {}
            for binding in bindings:
                if await request.shown_as(binding.matcher) is not None:
                    denied += await evaluation.decide(policy, binding, annotations, resource)
            for key, found in annotations.items():
                at.annotations[f"{policy.name}/{key}"] = ", ".join(found)
        if denied:
            raise _refusal(at, obj, *denied[0])


def _compiled(policy: Object) -> tuple[CompiledPolicy, Sequence[FieldError]]:
    compiler = PolicyCompiler(policy)
    return compiler.compile(), compiler.errors


class _Evaluation:
    """One request."""

    def __init__(self, registry: Registry, request: ReviewedRequest) -> None:
        self._registry: Final = registry
        self._request: Final = request
        self._at: Final = request.at

    async def decide(
        self, policy: _Policy, binding: Binding, annotations: dict[str, list[str]], resource: ResourceType
    ) -> list[tuple[_Policy, Binding | None, _Decision]]:
        """The refusals of a policy by a binding that denies; other actions are carried out."""
        try:
            all_params = await bound_policies.params(self._registry, self._at, policy, binding)
        except ConfigurationFailure as error:
            if not policy.fails_closed:
                return []
            return [(policy, binding, _Decision(f"failed to configure binding: {error}"))]
        denied: list[tuple[_Policy, Binding | None, _Decision]] = []
        for params in all_params:
            decisions, failed = await self._validate(policy, params, annotations, resource)
            for number, decision in enumerate(decisions):
                if decision.message and (policy.fails_closed or not decision.failed):
                    denied += self._act(policy, binding, number, decision)
            denied += [(policy, binding, one) for one in failed if policy.fails_closed]
        return denied

    def _act(
        self, policy: _Policy, binding: Binding, number: int, decision: _Decision
    ) -> list[tuple[_Policy, Binding | None, _Decision]]:
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

    async def _validate(
        self, policy: _Policy, params: Object | None, annotations: dict[str, list[str]], resource: ResourceType
    ) -> tuple[list[_Decision], list[_Decision]]:
        """The decisions of a policy with a parameter, and the errors of its audit annotations."""
        compiled = policy.compiled
        known = await self._request.variables(resource)
        known["params"] = params
        unmet, failures = await self._request.unmet(compiled.conditions, known)
        if unmet or failures:
            return [_Decision(one, failed=True) for one in failures[:1]], []
        variables = LazyVariables(compiled.variables, known)
        known["variables"] = variables
        budget = _Budget(BUDGET, variables)
        decisions = [await self._decision(one, known, budget) for one in compiled.validations]
        failed = []
        for key, program in compiled.annotations:
            outcome = await self._request.evaluated(program, known, budget.left)
            budget.spend(outcome)
            if outcome.error is not None:
                failed.append(_Decision(shown_error(program.text, outcome), failed=True))
            elif isinstance(outcome.value, str) and outcome.value.strip():
                text = outcome.value.strip().encode()[:_MOST_ANNOTATION_BYTES].decode(errors="ignore")
                found = annotations.setdefault(key, [])
                if text not in found:
                    found.append(text)
        return decisions, failed

    async def _decision(self, validation: Validation, known: Mapping[str, Any], budget: "_Budget") -> _Decision:
        outcome = await self._request.evaluated(validation.program, known, budget.left)
        budget.spend(outcome)
        if budget.left < 0:
            return _Decision(OUT_OF_BUDGET, failed=True)
        if outcome.error is not None:
            return _Decision(shown_error(validation.program.text, outcome), failed=True)
        if outcome.value is True:
            return _Decision("")
        message = ""
        if validation.message is not None:
            said = await self._request.evaluated(validation.message, known, budget.left)
            budget.spend(said)
            if isinstance(said.value, str):
                message = said.value.strip()
                if len(message.encode()) > _MOST_MESSAGE_BYTES or "\n" in message:
                    message = ""
        declared = validation.declared
        message = message or (declared.get("message") or "").strip()
        shown = message or f"failed expression: {validation.program.text.strip()}"
        return _Decision(shown, declared.get("reason") or "Invalid")


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


def _refusal(at: Attributes, obj: Object, policy: _Policy, binding: Binding | None, decision: _Decision) -> _Denied:
    by = f" with binding '{binding.name}'" if binding is not None else ""
    message = f"ValidatingAdmissionPolicy '{policy.name}'{by} denied request: {decision.message}"
    name = at.name or (obj.get("metadata") or {}).get("name") or ""
    plain = errors.forbidden(at.resource.group_resource, name, message)
    details = Details(name=name, group=at.resource.group, kind=at.resource.plural, causes=(Cause(message=message),))
    return _Denied(decision.reason or "Invalid", plain.message, details)
