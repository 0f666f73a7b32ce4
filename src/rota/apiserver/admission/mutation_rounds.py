"""Runs the plugins that change objects, then policies and webhooks of users, and all once more after a change.

A container that a webhook adds gets the defaults and limits of the server's own plugins in the second round, and
policies and webhooks that ask for it (`reinvocationPolicy: IfNeeded`) see the changes of later ones. There is no third
round, as in stock servers.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from rota.api.identifiers import GroupResource
from rota.api.patches import json_values
from rota.apiserver.admission.mutating_policies import BINDINGS, POLICIES
from rota.apiserver.admission.reinvocation import Round
from rota.apiserver.admission.request_matching import EXEMPT
from rota.apiserver.admission.reviewed_request import ReviewContext, ReviewedRequest
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
        """Change the request's object, or refuse it; whether a second round may change more."""
        ...


class MutationRounds:
    """An `Admission` that runs others."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({POLICIES, BINDINGS})

    def __init__(self, context: ReviewContext, plugins: Sequence[Admission], mutators: Sequence[Mutator]) -> None:
        self._context: Final = context
        self.plugins: Final = tuple(plugins)
        self._mutators: Final = tuple(mutators)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Admit the request with all changes."""
        extras = await self._run(at, new, old)
        if at.resource.group_resource in EXEMPT or not any(one.active for one in self._mutators):
            return extras
        progress = self.begin()
        if not await self.mutate(ReviewedRequest(self._context, at, new, old, mutating=True), progress):
            return extras
        extras = await self._run(at, new, old)
        await self.mutate(ReviewedRequest(self._context, at, new, old, mutating=True), progress, again=True)
        return extras

    def begin(self) -> tuple[Round, ...]:
        """The records of a request that has not been reviewed yet."""
        return tuple(Round() for _ in self._mutators)

    def concerns(self, plural: str, subresource: str) -> bool:
        """Whether a rule of users may be about a resource or subresource."""
        return any(one.concerns(plural, subresource) for one in self._mutators)

    async def mutate(self, request: ReviewedRequest, progress: Sequence[Round], *, again: bool = False) -> bool:
        """One round of the users' rules; whether it asks for a second one."""
        changed = False
        for mutator, own in zip(self._mutators, progress, strict=True):
            if not mutator.active:
                continue
            if again:
                own.number = 1
                if request.object != own.left:
                    own.changed()
            if await mutator.mutate(request, own):
                changed = True
            own.left = json_values.copy(request.object)
        return changed

    async def _run(self, at: Attributes, new: Object | None, old: Object | None) -> TransactionExtras | None:
        found = [extras for plugin in self.plugins if (extras := await plugin.admit(at, new, old)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        return TransactionExtras(
            writes=tuple(write for one in found for write in one.writes),
            guards=tuple(guard for one in found for guard in one.guards),
        )
