"""The interface of transports: a call goes out, an answer begins, its body comes in chunks.

A transport carries bytes and knows nothing of Kubernetes. An error status is an ordinary answer here; a
`TransportError` is raised only without an answer, and says whether the server may have acted on the call.
"""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, Protocol

#: Long enough for a large list, short enough to notice a server that hangs.
DEFAULT_TIMEOUT_S: Final = 60.0

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class TransportError(Exception):
    """No answer came."""

    def __init__(self, message: str, *, uncertain: bool) -> None:
        super().__init__(message)
        #: Whether the server may have received the call and acted on it.
        self.uncertain: Final = uncertain


class Unreachable(TransportError):
    """The call was not sent: no connection could be established."""

    def __init__(self, message: str) -> None:
        super().__init__(message, uncertain=False)


class Interrupted(TransportError):
    """The connection broke before the answer was complete."""

    def __init__(self, message: str) -> None:
        super().__init__(message, uncertain=True)


class TimedOut(TransportError):
    """The answer took longer than the timeout of the call."""

    def __init__(self, message: str) -> None:
        super().__init__(message, uncertain=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request; the path is percent-encoded already, the query is not."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | AsyncIterable[bytes] = b""
    #: For everything up to the end of the body; None for endless streams.
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    #: Whether a transport may retry the call where that is safe; see `retries`.
    retry: bool = True

    @property
    def only_reads(self) -> bool:
        """Whether the call changes nothing, so that it can be repeated."""
        return self.method in _READING

    @property
    def repeatable(self) -> bool:
        """Whether the body can be sent a second time."""
        return isinstance(self.body, bytes)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Answer(Protocol):
    """The beginning of an answer; valid inside the block that opened it."""

    @property
    def code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names to values; of repeated ones the last."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """The values of all `Warning` headers."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; `TransportError` if it is interrupted."""
        ...

    async def read(self) -> bytes:
        """The whole body."""
        ...


class Transport(Protocol):
    """Carries calls to a server."""

    def open(self, call: Call) -> AbstractAsyncContextManager[Answer]:
        """Send the call; the block begins with the answer, and leaving it drops the rest of the body."""
        ...

    async def close(self) -> None:
        """Close connections; calls in progress end with a `TransportError`."""
        ...
