"""Runs the plugins that change objects, then webhooks and policies of users, and both once more after a change.

A container that a webhook adds gets the defaults and limits of the server's own plugins in the second round, and
webhooks that ask for it (`reinvocationPolicy: IfNeeded`) see the changes of later ones. There is no third round, as in
stock servers.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from rota.api.identifiers import GroupResource
from rota.api.patches import json_values
from rota.apiserver.admission.request_matching import EXEMPT
from rota.apiserver.admission.reviewed_request import ReviewContext, ReviewedRequest
from rota.apiserver.admission.webhooks import Round
from rota.apiserver.interfaces import Admission, Attributes, Object, TransactionExtras


class Mutator(Protocol):
    """Changes objects by rules of users."""

    @property
    def active(self) -> bool:
        """Whether there is a rule."""
        ...

    def concerns(self, plural: str, subresource: str, /) -> bool:
        """Whether a rule may be about a resource or subresource."""
        ...

    async def mutate(self, request: ReviewedRequest, progress: Round, /) -> bool:
        """Change the request's object, or refuse it; whether something has changed."""
        ...


class MutationRounds:
    """An `Admission` that runs others."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, context: ReviewContext, plugins: Sequence[Admission], mutators: Sequence[Mutator]) -> None:
        self._context: Final = context
        self.plugins: Final = tuple(plugins)
        self._mutators: Final = tuple(mutators)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Admit the request with all changes."""
        extras = await self._run(at, new, old)
        if at.resource.group_resource in EXEMPT or not any(one.active for one in self._mutators):
            return extras
        request, progress = ReviewedRequest(self._context, at, new, old, mutating=True), Round()
        if not await self.mutate(request, progress):
            return extras
        before = json_values.copy(new)
        extras = await self._run(at, new, old)
        if new != before:
            progress.changed()
        progress.number = 1
        await self.mutate(ReviewedRequest(self._context, at, new, old, mutating=True), progress)
        return extras

    def concerns(self, plural: str, subresource: str) -> bool:
        """Whether a rule of users may be about a resource or subresource."""
        return any(one.concerns(plural, subresource) for one in self._mutators)

    async def mutate(self, request: ReviewedRequest, progress: Round) -> bool:
        """One round of the users' rules; whether one has changed the object."""
        changed = False
        for mutator in self._mutators:
            if mutator.active and await mutator.mutate(request, progress):
                changed = True
        return changed

    async def _run(self, at: Attributes, new: Object | None, old: Object | None) -> TransactionExtras | None:
        found = [extras for plugin in self.plugins if (extras := await plugin.admit(at, new, old)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        return TransactionExtras(
            writes=tuple(write for one in found for write in one.writes),
            guards=tuple(guard for one in found for guard in one.guards),
        )
