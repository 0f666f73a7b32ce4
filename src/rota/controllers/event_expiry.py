"""Deletes events an hour after they were last seen.

Events are numerous and rarely read individually, so they are not watched: once a minute all are listed, page by page,
and old ones are deleted. An event that is updated in between is kept.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import codec, errors, meta, times
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

EVENTS: Final = ("", "v1", "events")
LIFE_S: Final = 3600.0
_INTERVAL_S: Final = 60.0
_PAGE: Final = 500


class EventExpiry:
    """Deletes old events once a minute."""

    def __init__(self, client: Client, *, clock: Clock, life_s: float = LIFE_S) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._life_s: Final = life_s

    async def run(self) -> None:
        """Delete until cancelled."""
        while True:
            await self.sweep()
            await self._clock.sleep(_INTERVAL_S)

    async def sweep(self) -> int:
        """Delete the events that are old now; returns their number."""
        removed = 0
        async for page in self._client.pages(EVENTS, limit=_PAGE):
            for raw in page.items if page is not None else ():
                event = codec.decode(raw)
                if last_seen(event) + self._life_s <= self._clock.now():
                    removed += await self._remove(event)
        if removed:
            log.info("old events removed", count=removed)
        return removed

    async def _remove(self, event: Mapping[str, Any]) -> bool:
        metadata = meta.metadata(event)
        try:
            await self._client.delete(
                EVENTS, meta.name(event), namespace=meta.namespace(event), resource_version=metadata["resourceVersion"]
            )
        except (errors.NotFound, errors.Conflict):
            return False
        return True


def last_seen(event: Mapping[str, Any]) -> float:
    """When an event last occurred, from whichever field holds it."""
    series = event.get("series") or {}
    written = (
        meta.metadata(event).get("creationTimestamp"),
        event.get("firstTimestamp"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max((times.parse(one) for one in written if one), default=0.0)
