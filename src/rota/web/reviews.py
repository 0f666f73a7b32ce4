"""Which rights a user has, by access reviews, and when roles change so that they must be asked again."""

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Final

from rota.api import errors
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.rights import Right
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.tasks import Supervisor

log = logs.get(__name__)

_REVIEWS: Final = ("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_ROLES: Final = tuple(
    ("rbac.authorization.k8s.io", "v1", plural)
    for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
)


async def missing(client: Client, rights: Iterable[Right]) -> list[Right]:
    """The rights that a user lacks; ApiError or TransportError if the server does not answer.

    `client.rights.missing` lets a component start where nothing can be asked. Here such a right is not given: a server
    without access reviews is an error.
    """

    async def lacks(right: Right) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": right.attributes()},
        }
        answer = await client.create(_REVIEWS, review)
        return not (answer.get("status") or {}).get("allowed")

    wanted = list(rights)
    answers = await asyncio.gather(*map(lacks, wanted))
    return [one for one, lacking in zip(wanted, answers, strict=True) if lacking]


class Roles:
    """Tells when roles or their bindings change, as far as the dashboard may see them."""

    def __init__(self, client: Client, supervisor: Supervisor, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._supervisor: Final = supervisor
        self._clock: Final = clock
        self._rng: Final = rng
        self._waiting: Final[set[asyncio.Event]] = set()
        self._started = False

    def start(self) -> None:
        """Watch, once. Tabs do not wait for it: they ask again by themselves."""
        if not self._started:
            self._started = True
            for target in _ROLES:
                self._supervisor.start(f"feed {target[2]}", functools.partial(self._watch, target))

    async def _watch(self, target: tuple[str, str, str]) -> None:
        try:
            rights = (Right(verb=verb, group=target[0], resource=target[2]) for verb in ("list", "watch"))
            if await missing(self._client, rights):
                return
        except errors.NotFound:
            return
        except (errors.ApiError, TransportError) as problem:
            # The list below is repeated until it is answered.
            log.info("rights to roles cannot be asked", error=problem)
        informer = Informer[None](
            Source(client=self._client, target=target), decode=lambda _: None, clock=self._clock, rng=self._rng
        )
        informer.add_handler(lambda key, old, new: self._changed())
        await informer.run()

    @contextlib.contextmanager
    def changes(self) -> Iterator[asyncio.Event]:
        """An event that is set at every change."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)

    def _changed(self) -> None:
        for one in self._waiting:
            one.set()
