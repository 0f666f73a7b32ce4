"""Renews a worker's two certificates: the client certificate for the API, and the serving certificate of its endpoint.

Each is replaced after two thirds of its lifetime, by a request that is authenticated with the old one. A request that
is not granted is repeated, and the old certificate stays in use. Until the cluster has granted the first serving
certificate, the endpoint has a self-signed one that no client trusts.
"""

import asyncio
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

#: The clock may jump, so the remaining lifetime is checked at least this often.
_LONGEST_SLEEP_S: Final = 3600.0
#: Pending requests are garbage collected after a day; then the next one is made.
_PATIENCE_S: Final = DAY_S - 3600.0
_AGAIN: Final = backoff.Policy(initial_s=5.0, cap_s=600.0)


class Certificate:
    """One certificate of a worker, and its replacements."""

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
        """`first` is in use already; each replacement is passed to `install`."""
        self._client: Final = client
        self._node: Final = node
        self._signer: Final = signer
        self._names: Final = names
        self._install: Final = install
        self._clock: Final = clock
        self._rng: Final = rng
        self._due = 0.0 if first is None else renewal.due(first)
        self._granted: Final = asyncio.Event()
        if first is not None:
            self._granted.set()

    async def wait_granted(self) -> None:
        """Wait until the cluster has granted a certificate; at once if it did before."""
        await self._granted.wait()

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
        self._granted.set()
        log.info("certificate renewed", signer=self._signer, fingerprint=fresh.facts.fingerprint)


def stand_in(node: str, names: Names, *, clock: Clock) -> Identity:
    """A self-signed certificate for an endpoint that has none yet."""
    self_made = Authority.create(now=clock.now(), name=f"{node} without a certificate")
    return self_made.issue(
        certificate_requests.subject(node), purpose=Purpose.SERVER, now=clock.now(), lifetime_s=DAY_S, names=names
    )


def first_serving(folder: Path, node: str, names: Names, *, clock: Clock) -> tuple[Identity, Identity | None]:
    """The first certificate of an endpoint, and the one that was granted before, if it is that."""
    kept = membership.load_serving(folder, clock=clock)
    # The machine may have another address than last time.
    if kept is not None and certificates.names(certificates.read_pem(kept.certificate, source="it")) == names:
        return kept, kept
    return stand_in(node, names, clock=clock), None
