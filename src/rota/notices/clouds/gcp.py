"""Google's metadata server: `instance/preempted`, which is TRUE from thirty seconds before the end.

The request waits until the value changes, so a notice arrives at once with few requests.
"""

from collections.abc import Sequence
from typing import Final

from rota.notices.announcements import Announcement, Kind
from rota.notices.clouds.cloud_provider import AGENT, CloudError, MetadataEndpoint

URL: Final = "http://169.254.169.254"
#: In a request it proves that there was no redirect; in an answer it identifies Google's server.
FLAVOR: Final = {"Metadata-Flavor": "Google"}
_PREEMPTED: Final = "/computeMetadata/v1/instance/preempted"
_WORDS: Final = {"TRUE": True, "FALSE": False}
#: Allowance for a late answer.
_SLACK_S: Final = 10.0


class Gcp:
    """Compute Engine."""

    provider: Final = "gcp"

    def __init__(self, endpoint: MetadataEndpoint, *, boot: str, wait_s: float = 60.0) -> None:
        """`boot` identifies this boot of the machine: a machine may be preempted more than once."""
        self._endpoint: Final = endpoint
        self._boot: Final = boot
        self._wait_s: Final = wait_s
        self._version = ""

    async def look(self) -> Sequence[Announcement]:
        """See `Cloud.look`."""
        query, timeout_s = {}, _SLACK_S
        if self._version:
            query = {
                "wait_for_change": "true",
                "last_etag": self._version,
                "timeout_sec": str(max(1, round(self._wait_s))),
            }
            timeout_s += self._wait_s
        # after an error, the next request does not wait for a change
        self._version = ""
        reply = await self._endpoint.ask(_PREEMPTED, headers=FLAVOR, query=query, timeout_s=timeout_s)
        if reply.headers.get("metadata-flavor") != FLAVOR["Metadata-Flavor"]:
            raise CloudError(f"{_PREEMPTED} is not answered by Google's metadata server")
        preempted = _WORDS.get(reply.text.strip().upper())
        if reply.code != 200 or preempted is None:
            raise reply.refused(_PREEMPTED)
        self._version = reply.headers.get("etag", "")
        if not preempted:
            return ()
        notice = Announcement(
            kind=Kind.TERMINATION, source=AGENT, provider=self.provider, id=f"preempted {self._boot}", exact=True
        )
        return (notice,)
