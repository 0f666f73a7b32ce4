"""Approval of TuningProposals: the verb `approve` on `tuningproposals`, beside the right to write them.

So the program that proposes cannot put its proposal into force. Taking an approval back needs no further right.
"""

from typing import ClassVar, Final

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Authorizer, Object, Question

PROPOSALS: Final = GroupResource("rota.dev", "tuningproposals")


class TuningApproval:
    """Checks writes that approve a proposal, or have its evidence approve it."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer: Final = authorizer

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """See `Admission.admit`."""
        if at.resource.group_resource != PROPOSALS or at.subresource or new is None:
            return
        if _approves(new) in ("", _approves(old or {})):
            return
        name = at.name or new["metadata"].get("name", "")
        asked = Question(user=at.user, verb="approve", group=PROPOSALS.group, resource=PROPOSALS.resource, name=name)
        if not (await self._authorizer.authorize(asked)).allowed:
            why = (
                f'user not permitted to approve it; grant the verb "approve" on {PROPOSALS}, or have others approve it'
            )
            raise errors.forbidden(PROPOSALS, name, why)


def _approves(proposal: Object) -> str:
    spec = proposal.get("spec") or {}
    if spec.get("approved"):
        return "approved"
    # A withdrawn approval counts more than auto.
    return "auto" if spec.get("approve") == "auto" and spec.get("approved") is None else ""
