"""Privilege escalation prevention: a user can grant only permissions that the user has.

Exempt are members of system:masters, users who may `escalate` roles, and users who may `bind` the role in question.
Rules and messages are upstream's (`pkg/registry/rbac`, 1.36).
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from rota.api import errors, gotext, users
from rota.api.identifiers import GroupResource
from rota.apiserver.authorization import rbac, rules
from rota.apiserver.authorization.chain import Authorization
from rota.apiserver.authorization.rbac import RoleRef
from rota.apiserver.authorization.rules import Rule
from rota.apiserver.interfaces import Attributes, Object, Question, User

_ROLES: Final = frozenset({"roles", "clusterroles"})
_BINDINGS: Final = frozenset({"rolebindings", "clusterrolebindings"})
#: Fields that the garbage collector changes, and fields that change with every write.
_NOT_GRANTING: Final = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion", "selfLink"})
_AGGREGATION: Final = "must have cluster-admin privileges to use the aggregationRule"


class Escalation:
    """Checks every role and binding that is written."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, authorization: Authorization) -> None:
        self._authorization: Final = authorization

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Forbidden if the user would grant more permissions than the user has."""
        if new is None or at.resource.group != rbac.GROUP or users.MASTERS in at.user.groups:
            return
        if old is not None and _without_care(new) == _without_care(old):
            return
        # checked against the current state: not against permissions that are revoked, nor a role before it was extended
        await self._authorization.catch_up(at.user)
        if at.resource.plural in _ROLES:
            await self._check_role(at, new, old)
        elif at.resource.plural in _BINDINGS:
            await self._check_binding(at, new)

    async def _check_role(self, at: Attributes, new: Object, old: Object | None) -> None:
        if await self._may(at.user, "escalate", at.resource.plural, at.name, at.namespace):
            return
        self._confirm(at, new, rules.from_role(new))
        aggregates = [one for one in (new, old or {}) if (one.get("aggregationRule") or {}).get("clusterRoleSelectors")]
        if aggregates and self._missing(at, rules.EVERYTHING):
            raise _forbidden(at, new, _AGGREGATION)

    async def _check_binding(self, at: Attributes, new: Object) -> None:
        role = rbac.role_ref(new)
        plural = f"{role.kind.lower()}s"
        if plural in _ROLES and await self._may(at.user, "bind", plural, role.name, at.namespace):
            return
        self._confirm(at, new, self._rules_of(role, at))

    def _rules_of(self, role: RoleRef, at: Attributes) -> Sequence[Rule]:
        found = self._authorization.policy.rules_of(role, at.namespace)
        if found is not None:
            return found
        if f"{role.kind.lower()}s" not in _ROLES:
            return ()  # no role at all, which validation reports better
        raise errors.not_found(at.resource.group_resource, role.name)

    def _confirm(self, at: Attributes, new: Object, wanted: Sequence[Rule]) -> None:
        missing = self._missing(at, wanted)
        if not missing:
            return
        user = at.user
        listing = "\n".join(sorted({str(rule) for rule in rules.joined(missing)}))
        why = (
            f"user {gotext.quote(user.name)} (groups={rules.quoted(user.groups)}) is attempting to grant RBAC "
            f"permissions not currently held:\n{listing}"
        )
        _, problems = self._authorization.policy.rules_for(user, at.namespace)
        if problems:
            why += f"; resolution errors: [{', '.join(problems)}]"
        raise _forbidden(at, new, why)

    def _missing(self, at: Attributes, wanted: Sequence[Rule]) -> list[Rule]:
        owned, _ = self._authorization.policy.rules_for(at.user, at.namespace)
        return rules.uncovered(owned, wanted)

    async def _may(self, user: User, verb: str, plural: str, name: str, namespace: str) -> bool:
        question = Question(user=user, verb=verb, group=rbac.GROUP, resource=plural, name=name, namespace=namespace)
        return (await self._authorization.authorize(question)).allowed


def _without_care(obj: Object) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _NOT_GRANTING}
    return {**obj, "metadata": metadata}


def _forbidden(at: Attributes, new: Object, why: str) -> errors.Forbidden:
    return errors.forbidden(at.resource.group_resource, new["metadata"].get("name", ""), why)
