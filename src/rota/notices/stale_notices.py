"""Withdraws notices of machines that still run long after their deadline.

Webhooks and events report once that a machine ends, and hardly ever that it stays. A machine that was only stopped
returns with its old name, and would take no pods for ever. Notices of an agent or a user are not withdrawn here.
"""

from typing import Final

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.notices.announcements import Announcement, Kind
from rota.notices.announcer import Announcer
from rota.notices.node_lookup import Machines

log = logs.get(__name__)

_EVERY_S: Final = 60.0


class StaleNoticeReaper:
    """Checks about once a minute. Several processes may run it."""

    def __init__(self, machines: Machines, announcer: Announcer, *, clock: Clock, rng: Rng) -> None:
        self._machines: Final = machines
        self._announcer: Final = announcer
        self._clock: Final = clock
        self._rng: Final = rng

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self._clock.sleep(_EVERY_S * (0.5 + self._rng.random()))
            for node, source in self._machines.survivors(now=self._clock.now()):
                stays = Announcement(kind=Kind.WITHDRAWN, source=source, own=True)
                try:
                    await self._announcer.announce(node, stays)
                except (errors.ApiError, TransportError) as problem:
                    log.warning("notice not withdrawn yet", node=node, error=problem)
