"""All authorizers in order: members of system:masters may do everything, then the node authorizer, then RBAC.

Decisions use watch caches, which lag slightly behind the store. No request is refused by outdated state: a refusal is
checked again once the caches have caught up with the store, so a permission is effective as soon as it is granted. A
revoked one may be used until the caches see the change, as upstream. Refusals cost one read of the store at a time, for
any number of requests. Refusals of anonymous users cost none: for them the caches' state counts.
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
    """Implements the server's `Authorizer`."""

    def __init__(self, store: Store, scheme: Scheme, clock: Clock) -> None:
        self._store: Final = store
        self._live: Final = PolicyCache(store, scheme, clock)
        self._relations: Final = RelationCache(store, scheme, clock)
        self._nodes: Final = NodeAuthorizer(self._relations.relations)
        #: The read of the revision that is running, and the one after it.
        self._asking: asyncio.Task[int] | None = None
        self._asking_next: asyncio.Task[int] | None = None

    @property
    def policy(self) -> Policy:
        """The roles and bindings in the cache."""
        return self._live.policy

    def start(self, beside: tasks.Supervisor, rng: Rng) -> None:
        """Start the caches."""
        for name, followed in self._live.followers():
            beside.start(name, followed.run)
        beside.start("relations of nodes", lambda: self._relations.run(rng))

    async def ready(self) -> None:
        """Wait until every role and binding is cached."""
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
        # also if the caches were up to date by then: they may have got the change during the read
        return self._decide(question)

    async def catch_up(self, user: users.User) -> None:
        """Wait until the caches have everything that the store has now and that matters for a user.

        ServiceUnavailable if they do not catch up: a refusal would be a guess.
        """
        revision = await self._latest()
        await self._live.catch_up(revision)
        if identity.node_of(user) is not None:
            await self._relations.catch_up(revision)

    async def _latest(self) -> int:
        """The store's revision at some moment from now on.

        A read that is already running may return an older revision than the caller needs, so the caller waits for the
        one after it, together with all callers that came meanwhile.
        """
        if self._asking_next is None:
            self._asking_next = asyncio.create_task(self._ask(self._asking))
        return await asyncio.shield(self._asking_next)  # other callers wait for it too

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
