"""Keeps a worker's two certificates fresh: the one that it calls with, and the one that its endpoint shows.

Each is replaced when two thirds of its life are over, by a request that the former one still signs for. A replacement
that does not come is asked for again, and the old certificate is used meanwhile. Until the cluster has granted the
first one, an endpoint shows a certificate that nobody believes: it can be reached, and is refused.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from rota.api import errors as api_errors
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import backoff, logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.pki import certificates, renewal
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Identity, Names
from rota.worker.cluster_join import certificate_requests, membership
from rota.worker.cluster_join.certificate_requests import NotGranted

log = logs.get(__name__)

#: The clock may jump, so nobody sleeps longer than this before looking again.
_LONGEST_SLEEP_S: Final = 3600.0
#: Requests that nobody looks at are cleared away after a day: then the next one is made.
_PATIENCE_S: Final = DAY_S - 3600.0
_AGAIN: Final = backoff.Policy(initial_s=5.0, cap_s=600.0)


class Certificate:
    """One certificate of a worker, and its next ones."""

    def __init__(
        self,
        client: Client,
        node: str,
        signer: str,
        first: Identity | None,
        *,
        install: Callable[[Identity], Awaitable[None]],
        clock: Clock,
        rng: Rng,
        names: Names | None = None,
    ) -> None:
        """`first` is in use already; what comes after it is handed to `install`."""
        self._client: Final = client
        self._node: Final = node
        self._signer: Final = signer
        self._names: Final = names
        self._install: Final = install
        self._clock: Final = clock
        self._rng: Final = rng
        self._due = 0.0 if first is None else renewal.due(first)

    async def run(self) -> None:
        """Renew until cancelled."""
        pauses = backoff.Backoff(_AGAIN, self._rng)
        while True:
            left = self._due - self._clock.now()
            if left > 0:
                await self._clock.sleep(min(left, _LONGEST_SLEEP_S))
                continue
            try:
                await self._renew()
            except (NotGranted, api_errors.ApiError, TransportError) as error:
                pause = pauses.next()
                log.warning("certificate not renewed", signer=self._signer, error=error, again_in_s=round(pause))
                await self._clock.sleep(pause)
            else:
                pauses.reset()

    async def _renew(self) -> None:
        fresh = await certificate_requests.obtain(
            self._client, self._node, self._signer, clock=self._clock, patience_s=_PATIENCE_S, names=self._names
        )
        await self._install(fresh)
        self._due = renewal.due(fresh)
        log.info("certificate renewed", signer=self._signer, fingerprint=fresh.facts.fingerprint)


def stand_in(node: str, names: Names, *, clock: Clock) -> Identity:
    """A certificate of nobody, for an endpoint that has none yet."""
    nobody = Authority.create(now=clock.now(), name=f"{node} without a certificate")
    return nobody.issue(
        certificate_requests.subject(node), purpose=Purpose.SERVER, now=clock.now(), lifetime_s=DAY_S, names=names
    )


def first_serving(folder: Path, node: str, names: Names, *, clock: Clock) -> tuple[Identity, Identity | None]:
    """What an endpoint shows at first, and the certificate that it was granted before, if it is that."""
    kept = membership.load_serving(folder, clock=clock)
    # A machine may have another address than last time.
    if kept is not None and certificates.names(certificates.read_pem(kept.certificate, source="it")) == names:
        return kept, kept
    return stand_in(node, names, clock=clock), None
