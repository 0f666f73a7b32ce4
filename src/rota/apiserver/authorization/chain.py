"""All authorizers in their order: members of system:masters may do everything, then nodes are asked about, then roles.

Decisions are made in memory, by copies that lag behind the store by little. Nobody is refused by what is out of date:
a refusal is looked at again once the copies have caught up with the store, so a right counts as soon as it is granted.
One that is taken away may be used for as long as the news takes, as upstream. Refusals cost the store one question at a
time, however many there are, and those of strangers none: what strangers may do counts when the news is here.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from rota.api import users
from rota.api.scheme import Scheme
from rota.apiserver.authorization.nodes import identity
from rota.apiserver.authorization.nodes.authorizer import NodeAuthorizer
from rota.apiserver.authorization.nodes.relation_cache import RelationCache
from rota.apiserver.authorization.policy_cache import PolicyCache
from rota.apiserver.authorization.rbac import Policy
from rota.apiserver.interfaces import Decision, Question, Verdict
from rota.kit import tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.store.store_interface import Store

_ALLOWED: Final = Verdict(Decision.ALLOWED)


class Authorization:
    """Fills `contract.Authorizer`."""

    def __init__(self, store: Store, scheme: Scheme, clock: Clock) -> None:
        self._store: Final = store
        self._live: Final = PolicyCache(store, scheme, clock)
        self._relations: Final = RelationCache(store, scheme, clock)
        self._nodes: Final = NodeAuthorizer(self._relations.relations)
        #: The question to the store that is under way, and the one that is put after it.
        self._asking: asyncio.Task[int] | None = None
        self._asking_next: asyncio.Task[int] | None = None

    @property
    def policy(self) -> Policy:
        """The roles and bindings as far as they are known."""
        return self._live.policy

    def start(self, beside: tasks.Supervisor, rng: Rng) -> None:
        """Begin to follow the store."""
        for name, followed in self._live.followers():
            beside.start(name, followed.run)
        beside.start("relations of nodes", lambda: self._relations.run(rng))

    async def ready(self) -> None:
        """Until every role and binding is known."""
        await self._live.ready()

    async def authorize(self, question: Question, /) -> Verdict:
        """See `Authorizer.authorize`."""
        if users.MASTERS in question.user.groups:
            return _ALLOWED
        if identity.node_of(question.user) is not None:
            await self._relations.ready()
        verdict = self._decide(question)
        if verdict.allowed or users.UNAUTHENTICATED in question.user.groups:
            return verdict
        await self.catch_up(question.user)
        # also when nothing was missing by then: the copies may have learned it while the store was asked
        return self._decide(question)

    async def catch_up(self, user: users.User) -> None:
        """Know all that the store knows now and that matters for a user.

        ServiceUnavailable if the copies do not get there: a refusal would be a guess.
        """
        revision = await self._latest()
        await self._live.catch_up(revision)
        if identity.node_of(user) is not None:
            await self._relations.catch_up(revision)

    async def _latest(self) -> int:
        """The store's revision at some moment from now on.

        An answer that is on its way may be older than what the caller has to know, so he waits for the one after it,
        with all who came meanwhile.
        """
        if self._asking_next is None:
            self._asking_next = asyncio.create_task(self._ask(self._asking))
        return await asyncio.shield(self._asking_next)  # others wait for it too

    async def _ask(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait({before})
        self._asking, self._asking_next = self._asking_next, None
        return (await self._store.revision_range()).revision

    def _decide(self, question: Question) -> Verdict:
        links: tuple[Callable[[Question], Verdict], ...] = (self._nodes.decide, self._live.policy.decide)
        reasons = []
        for decide in links:
            verdict = decide(question)
            if verdict.decision is not Decision.NO_OPINION:
                return verdict
            if verdict.reason:
                reasons.append(verdict.reason)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons))
