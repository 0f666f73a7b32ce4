"""MutatingAdmissionPolicies: changes objects as the policies say that bindings put in force.

Policies run before mutating webhooks. All of a request's policies, bindings and parameters are found before the first
change, so that a change does not decide which policies apply; match conditions and variables see the changes of the
policies before. Deletions have nothing to change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, fields
from rota.api.cel.values import ObjectValue
from rota.api.errors import Cause, Details
from rota.api.fields import FieldError
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.admission import bound_policies, mutation_patches
from rota.apiserver.admission.bound_policies import Binding, BoundPolicies, ConfigurationFailure, Policy
from rota.apiserver.admission.mutation_patches import MutationError
from rota.apiserver.admission.policy_variables import LazyVariables
from rota.apiserver.admission.reinvocation import Round
from rota.apiserver.admission.request_matching import EXEMPT, Operation
from rota.apiserver.admission.reviewed_request import (
    BUDGET,
    OUT_OF_BUDGET,
    ReviewedRequest,
    shown_error,
)
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object, Registry
from rota.apiserver.strategies.mutation_expressions import APPLY, CompiledMutations, Mutation, MutationCompiler

POLICIES: Final = GroupResource("admissionregistration.k8s.io", "mutatingadmissionpolicies")
BINDINGS: Final = GroupResource("admissionregistration.k8s.io", "mutatingadmissionpolicybindings")


@dataclass(frozen=True, slots=True)
class _Invocation:
    """A policy for one binding and one parameter."""

    policy: Policy[CompiledMutations]
    binding: Binding
    params: Object | None
    #: The version in which the policy sees the object.
    resource: ResourceType

    @property
    def key(self) -> str:
        """What identifies it for a second round."""
        metadata = (self.params or {}).get("metadata") or {}
        return "/".join((self.policy.name, self.binding.name, metadata.get("namespace", ""), metadata.get("name", "")))


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a policy refuses the request."""

    policy: Policy[CompiledMutations]
    binding: Binding | None
    message: str
    #: Of expressions; a configuration that fails has the reason of the refusal.
    reason: str = ""

    def __str__(self) -> str:
        if self.binding is None:
            return f'policy "{self.policy.name}" denied request: {self.message}'
        return f"policy '{self.policy.name}' with binding '{self.binding.name}' denied request: {self.message}"


class MutatingPolicies:
    """Changes objects by policies; `mutation_rounds` calls it."""

    def __init__(self, registry: Registry, copies: Mapping[GroupResource, WatchCache]) -> None:
        self._registry: Final = registry
        self._policies: Final = BoundPolicies(copies[POLICIES], copies[BINDINGS], _compiled)

    @property
    def active(self) -> bool:
        """Whether there is a binding."""
        return bool(self._policies)

    def concerns(self, plural: str, subresource: str, /) -> bool:
        """Whether a policy that is in force may be about a resource or subresource."""
        return self._policies.concerns(plural, subresource)

    async def mutate(self, request: ReviewedRequest, progress: Round, /) -> bool:
        """Change the request's object as policies say, or refuse the request; whether a mutation was applied."""
        if request.what is Operation.DELETE or request.at.resource.group_resource in EXEMPT:
            return False
        failures: list[_Failure] = []
        applied = False
        for one in await self._invocations(request, failures):
            unmet = await self._unmet(one, request, failures)
            if unmet or progress.skips(one.key):
                continue
            before = request.object
            for mutation in one.policy.compiled.mutations:
                try:
                    applied |= await self._mutate(one, mutation, request)
                except MutationError as error:
                    failures.append(_Failure(one.policy, one.binding, str(error), "Invalid"))
            if request.object != before:
                progress.changed()
            if one.policy.compiled.reinvocable:
                progress.called.add(one.key)
        if applied:
            # Also if nothing has changed, as stock servers do: they compare only what policies leave.
            progress.changed()
        failures = [one for one in failures if one.policy.fails_closed]
        if failures:
            raise _refusal(request.at, request.refused_name, failures)
        return applied

    async def _invocations(self, request: ReviewedRequest, failures: list[_Failure]) -> list[_Invocation]:
        found = []
        for policy, bindings in self._policies:
            resource = await request.shown_as(policy.matcher)
            if resource is None:
                continue
            if policy.error:
                failures.append(_Failure(policy, None, f"failed to configure policy: {policy.error}"))
                continue
            for binding in bindings:
                if await request.shown_as(binding.matcher) is None:
                    continue
                try:
                    params = await bound_policies.params(self._registry, request.at, policy, binding)
                except ConfigurationFailure as error:
                    failures.append(_Failure(policy, binding, f"failed to configure binding: {error}"))
                    continue
                found += [_Invocation(policy, binding, one, resource) for one in params]
        return found

    async def _unmet(self, one: _Invocation, request: ReviewedRequest, failures: list[_Failure]) -> bool:
        """Whether a match condition says no, or fails."""
        conditions = one.policy.compiled.conditions
        if not conditions:
            return False
        unmet, wrong = await request.unmet(conditions, await self._known(one, request))
        if wrong:
            failures.append(_Failure(one.policy, one.binding, fields.aggregate(wrong), "Invalid"))
        return unmet or bool(wrong)

    async def _known(self, one: _Invocation, request: ReviewedRequest) -> dict[str, Any]:
        return {**await request.variables(one.resource), "params": one.params}

    async def _mutate(self, one: _Invocation, mutation: Mutation, request: ReviewedRequest) -> bool:
        """Apply a mutation; whether there is an object to apply it to. MutationError if it fails."""
        obj, _ = await request.objects(one.resource)
        if obj is None:
            return False
        known = await self._known(one, request)
        # Each mutation sees the object that the one before has left, and so do its variables.
        variables = known["variables"] = LazyVariables(one.policy.compiled.variables, known)
        outcome = await request.evaluated(mutation.program, known, BUDGET)
        if outcome.cost + variables.cost > BUDGET:
            raise MutationError(OUT_OF_BUDGET)
        if outcome.error is not None:
            raise MutationError(shown_error(mutation.text, outcome))
        if mutation.patch_type == APPLY:
            if not isinstance(outcome.value, ObjectValue):
                raise MutationError("unsupported return type from ApplyConfiguration expression")
            schema = request.merge_schema(one.resource)
            await request.change(mutation_patches.apply_configuration(outcome.value, obj, schema), one.resource)
        else:
            patched = mutation_patches.json_patched(outcome.value, obj)
            if patched is not None:
                await request.change(patched, one.resource, strict=True)
        return True


def _compiled(policy: Object) -> tuple[CompiledMutations, list[FieldError]]:
    compiler = MutationCompiler(policy)
    return compiler.compile(), compiler.errors


class _Refused(errors.Forbidden):
    """A policy refused the request; the reason is that of its first failure."""

    def __init__(self, reason: str, message: str, details: Details) -> None:
        super().__init__(message, details=details)
        self.reason = reason or self.reason


def _refusal(at: Attributes, name: str, failures: list[_Failure]) -> _Refused:
    causes = tuple(Cause(message=str(one)) for one in failures)
    details = Details(name=name, group=at.resource.group, kind=at.resource.plural, causes=causes)
    return _Refused(failures[0].reason, str(failures[0]), details)
