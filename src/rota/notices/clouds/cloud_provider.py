"""The interface of a cloud, and HTTP requests to its metadata endpoint.

A cloud is polled, and each poll returns everything that holds now: what is missing is withdrawn. An endpoint that does
not answer, or not in the documented form, is a `CloudError`: neither a notice nor a withdrawal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.notices.announcements import Announcement

_S = TypeVar("_S", bound=msgspec.Struct)

AGENT: Final = "agent"
#: Answers have a few hundred bytes; a larger one does not come from a metadata endpoint.
_MOST_BYTES: Final = 64 * 1024
_USUAL_TIMEOUT_S: Final = 5.0


class CloudError(Exception):
    """An endpoint did not answer as documented."""


class Cloud(Protocol):
    """One cloud's endpoint."""

    @property
    def provider(self) -> str:
        """Its name in the table of signals."""
        ...

    async def look(self) -> Sequence[Announcement]:
        """Everything that is announced about this machine now; may wait for a change if the cloud supports that."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer."""

    code: int
    headers: Mapping[str, str]
    text: str

    def refused(self, what: str) -> CloudError:
        """The error for an unexpected answer."""
        return CloudError(f"{what} answered {self.code}: {' '.join(self.text.split())[:120]}")

    def decoded(self, kind: type[_S], what: str) -> _S:
        """The JSON content; CloudError if it has another form."""
        try:
            return msgspec.json.decode(self.text, type=kind)
        except (msgspec.DecodeError, RecursionError) as problem:
            raise CloudError(f"{what} holds nothing that can be read: {problem}") from None


class MetadataEndpoint:
    """HTTP to one address: no proxies, no redirects, limited answers."""

    def __init__(self, url: str, session: aiohttp.ClientSession, *, clock: Clock) -> None:
        """`session` must not read proxies from the environment: these addresses are local to the machine."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UserError(f"{url!r} is no address of a metadata endpoint", "write it like http://169.254.169.254")
        self.url: Final = url.rstrip("/")
        self._session: Final = session
        self._clock: Final = clock

    async def ask(
        self,
        path: str,
        *,
        headers: Mapping[str, str],
        method: str = "GET",
        query: Mapping[str, str] | None = None,
        timeout_s: float = _USUAL_TIMEOUT_S,
    ) -> Reply:
        """One request; CloudError without an answer, or with too large a one."""
        try:
            return await self._clock.wait_for(self._asked(method, path, headers, query or {}), timeout_s)
        except TimeoutError:
            raise CloudError(f"{self.url}{path} did not answer within {timeout_s:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise CloudError(f"{self.url}{path} does not answer: {str(problem) or type(problem).__name__}") from None

    async def _asked(self, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Reply:
        asking = self._session.request(
            method, f"{self.url}{path}", headers=headers, params=query, allow_redirects=False, timeout=None
        )
        async with asking as answer:
            body = b""
            async for chunk in answer.content.iter_chunked(_MOST_BYTES):
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise CloudError(f"{self.url}{path} sends more than {_MOST_BYTES} bytes")
            told = {name.lower(): value for name, value in answer.headers.items()}
            return Reply(answer.status, told, body.decode("utf-8", "replace"))
