"""Azure's Scheduled Events: a document about the machines of a set, of which this is one.

The first request enables the service, and may be answered after two minutes.
"""

from collections.abc import Sequence
from typing import Final

from rota.notices.announcements import Announcement
from rota.notices.clouds.cloud_provider import AGENT, CloudError, MetadataEndpoint
from rota.notices.messages import ScheduledEvents

URL: Final = "http://169.254.169.254"
HEADERS: Final = {"Metadata": "true"}
NAME: Final = "/metadata/instance/compute/name"
NAME_QUERY: Final = {"api-version": "2021-02-01", "format": "text"}
_EVENTS: Final = "/metadata/scheduledevents"
_EVENTS_QUERY: Final = {"api-version": "2020-07-01"}
_FIRST_TIMEOUT_S: Final = 130.0
_TIMEOUT_S: Final = 10.0


class Azure:
    """Virtual machines, alone or in scale sets."""

    provider: Final = "azure"

    def __init__(self, endpoint: MetadataEndpoint) -> None:
        self._endpoint: Final = endpoint
        self._name = ""
        self._timeout_s = _FIRST_TIMEOUT_S

    async def look(self) -> Sequence[Announcement]:
        """See `Cloud.look`."""
        if not self._name:
            self._name = await self._own_name()
        reply = await self._endpoint.ask(_EVENTS, headers=HEADERS, query=_EVENTS_QUERY, timeout_s=self._timeout_s)
        if reply.code != 200:
            raise reply.refused(_EVENTS)
        self._timeout_s = _TIMEOUT_S
        document = reply.decoded(ScheduledEvents, _EVENTS)
        return [said for name, said in document.about(AGENT) if name.lower() == self._name.lower()]

    async def _own_name(self) -> str:
        reply = await self._endpoint.ask(NAME, headers=HEADERS, query=NAME_QUERY)
        if reply.code != 200 or not reply.text.strip():
            raise reply.refused(NAME)
        if len(reply.text) > 256:
            raise CloudError(f"{NAME} holds no name")
        return reply.text.strip()
