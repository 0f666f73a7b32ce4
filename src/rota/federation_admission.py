"""Rules of a federation's API server for single requests: policies are validated, and protected resources stay.

Upstream has these rules in admission webhooks of its control plane. They are only for control planes: the label of a
protected resource is on its copies in members, too, from where the federation must be able to delete them.
"""

from typing import ClassVar, Final

from rota.api import errors, fields, meta
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object
from rota.federation import kinds
from rota.federation.policies import defaults, validation
from rota.federation.services import validation as services

PROTECTED: Final = "resourcetemplate.karmada.io/deletion-protected"
_POLICIES: Final = frozenset(
    {"propagationpolicies", "clusterpropagationpolicies", "overridepolicies", "clusteroverridepolicies"}
)


class DeletionProtection:
    """Refuses to delete resources with the label `deletion-protected: Always`."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Forbidden if a protected resource would be deleted."""
        if new is None and old is not None and meta.labels(old).get(PROTECTED) == "Always":
            why = f"it is protected by the label {PROTECTED}; remove the label first"
            raise errors.forbidden(at.resource.group_resource, at.name, why)


class PolicyValidation:
    """Refuses policies that cannot be followed, with upstream's paths and types of errors."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Invalid if a policy or a MultiClusterService contradicts itself, or asks for what is not supported."""
        group, plural = at.resource.group, at.resource.plural
        is_service = (group, plural) == (kinds.MULTI_CLUSTER_SERVICES[0], kinds.MULTI_CLUSTER_SERVICES[2])
        is_policy = group == "policy.karmada.io" and plural in _POLICIES
        if new is None or not (is_policy or is_service) or at.subresource or meta.is_deleting(new):
            return
        try:
            if is_service:
                problems = services.validate(new, old)
            else:
                problems = validation.validate(defaults.defaulted(new) or new)
        except (AttributeError, KeyError, TypeError, ValueError):
            return  # a value of another type, which the schema refuses
        if problems:
            raise errors.invalid(at.resource.group_kind, meta.name(new), [_error(problem) for problem in problems])


def _error(problem: validation.Problem) -> fields.FieldError:
    return fields.FieldError(fields.ErrorType(problem.type), problem.field, problem.message)
