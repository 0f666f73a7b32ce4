"""Renews certificates automatically when two thirds of their lifetime are over."""

from collections.abc import Callable
from typing import Final

from rota.kit import logs
from rota.kit.clock import Clock
from rota.pki.certificates import Identity

log = logs.get(__name__)

#: The fraction of a lifetime after which renewal is due: enough time is left for repairs if it fails.
_DUE_AFTER: Final = 2 / 3
#: The clock may jump, so a wait is never longer than this.
_LONGEST_SLEEP_S: Final = 3600.0
_SHORTEST_SLEEP_S: Final = 1.0


def due(identity: Identity) -> float:
    """When a certificate is due for renewal."""
    facts = identity.facts
    return facts.not_before + (facts.not_after - facts.not_before) * _DUE_AFTER


class Renewal:
    """Renews one certificate."""

    def __init__(
        self,
        name: str,
        first: Identity,
        *,
        issue: Callable[[], Identity],
        install: Callable[[Identity], None],
        clock: Clock,
    ) -> None:
        """`first` is in use; a certificate that `issue` returns is passed to `install`."""
        self._name: Final = name
        self._issue: Final = issue
        self._install: Final = install
        self._clock: Final = clock
        self._due = due(first)

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            left = self._due - self._clock.now()
            await self._clock.sleep(max(_SHORTEST_SLEEP_S, min(left, _LONGEST_SLEEP_S)))
            if self._clock.now() >= self._due:
                self.renew()

    def renew(self) -> None:
        """Renew the certificate now."""
        fresh = self._issue()
        self._install(fresh)
        self._due = due(fresh)
        log.info("certificate renewed", certificate=self._name, fingerprint=fresh.facts.fingerprint)
