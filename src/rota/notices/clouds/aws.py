"""Amazon's instance metadata service, version 2: a token first, then requests.

`spot/instance-action` exists from two minutes before a spot machine is reclaimed; `events/recommendations/rebalance`
exists from when it has an elevated risk.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from rota.kit.clock import Clock
from rota.notices.announcements import Announcement, Kind
from rota.notices.clouds.cloud_provider import AGENT, MetadataEndpoint, Reply
from rota.spot import timestamps

URL: Final = "http://169.254.169.254"
_TOKEN: Final = "/latest/api/token"  # noqa: S105 - a path
_ACTION: Final = "/latest/meta-data/spot/instance-action"
_REBALANCE: Final = "/latest/meta-data/events/recommendations/rebalance"
#: The longest lifetime of a token. It is renewed early, or when one is refused.
_TOKEN_LIFETIME_S: Final = 21_600


class _Action(msgspec.Struct, frozen=True):
    action: str
    time: str = ""


class _Recommendation(msgspec.Struct, frozen=True):
    notice_time: str = msgspec.field(name="noticeTime", default="")


class Aws:
    """EC2."""

    provider: Final = "aws"

    def __init__(self, endpoint: MetadataEndpoint, *, clock: Clock) -> None:
        self._endpoint: Final = endpoint
        self._clock: Final = clock
        self._token = ""
        self._renew_at = -math.inf

    async def look(self) -> Sequence[Announcement]:
        """See `Cloud.look`."""
        found: list[Announcement] = []
        action = await self._get(_ACTION)
        if action is not None:
            told = action.decoded(_Action, _ACTION)
            found.append(
                Announcement(
                    kind=Kind.TERMINATION,
                    source=AGENT,
                    provider=self.provider,
                    deadline=timestamps.find(told.time),
                    id=f"{told.action} {told.time}",
                    exact=True,
                )
            )
        advice = await self._get(_REBALANCE)
        if advice is not None:
            when = advice.decoded(_Recommendation, _REBALANCE).notice_time
            found.append(
                Announcement(kind=Kind.RISK, source=AGENT, provider=self.provider, id=f"rebalance {when}", exact=True)
            )
        return found

    async def _get(self, path: str) -> Reply | None:
        """The content of a path; None if it does not exist."""
        reply = await self._asked(path)
        if reply.code == 401:
            self._renew_at = -math.inf
            reply = await self._asked(path)
        if reply.code == 404:
            return None
        if reply.code != 200:
            raise reply.refused(path)
        return reply

    async def _asked(self, path: str) -> Reply:
        if self._clock.monotonic() >= self._renew_at:
            lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_LIFETIME_S)}
            reply = await self._endpoint.ask(_TOKEN, method="PUT", headers=lifetime)
            if reply.code != 200 or not reply.text.strip().isprintable() or not reply.text.strip():
                raise reply.refused(_TOKEN)
            self._token, self._renew_at = reply.text.strip(), self._clock.monotonic() + _TOKEN_LIFETIME_S / 2
        return await self._endpoint.ask(path, headers={"X-aws-ec2-metadata-token": self._token})
