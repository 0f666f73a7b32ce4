"""Retries of calls where that helps and is safe; wraps any other transport.

* No connection: any call is retried, for it was never sent.
* A connection that broke before the answer began: only reads are retried.
* 429 or 503 with `Retry-After`: any call, after that time, for the server did not act on it. Without the header
  the caller decides: an eviction that a budget forbids is not an overload.

An answer that has begun is never repeated: only the reader of a stream can resume it.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from rota.client.transports.transport import Answer, Call, Transport, TransportError
from rota.kit import backoff, logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

_BUSY: Final = frozenset({429, 503})
_POLICY: Final = backoff.Policy(initial_s=0.1, cap_s=5.0)


class RetryingTransport:
    """A `Transport` with retries."""

    def __init__(
        self, inner: Transport, *, clock: Clock, rng: Rng, attempts: int = 5, longest_wait_s: float = 30.0
    ) -> None:
        """A `Retry-After` of more than `longest_wait_s` is not waited for."""
        self._inner: Final = inner
        self._clock: Final = clock
        self._rng: Final = rng
        self._attempts: Final = attempts
        self._longest_wait_s: Final = longest_wait_s

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        """See `Transport.open`."""
        async with contextlib.AsyncExitStack() as exits:
            yield await self._begin(call, exits)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._inner.close()

    async def _begin(self, call: Call, exits: contextlib.AsyncExitStack) -> Answer:
        pauses = backoff.Backoff(_POLICY, self._rng)
        left = self._attempts if call.retry and call.repeatable else 1
        while True:
            left -= 1
            attempt = contextlib.AsyncExitStack()
            try:
                answer = await attempt.enter_async_context(self._inner.open(call))
            except TransportError as error:
                if not left or (error.uncertain and not call.only_reads):
                    raise
                delay = pauses.next()
                log.debug("call repeated", call=str(call), error=error, delay_s=round(delay, 3))
            else:
                wait = _retry_after(answer)
                if not left or wait is None or wait > self._longest_wait_s:
                    exits.push_async_exit(attempt.pop_all())
                    return answer
                # Reading the answer to its end lets the connection be reused.
                with contextlib.suppress(TransportError):
                    await answer.read()
                await attempt.aclose()
                # Clients that were refused together should not return together.
                delay = wait + self._rng.random() * min(1.0, wait)
                log.debug("server is busy", call=str(call), code=answer.code, delay_s=round(delay, 3))
            await self._clock.sleep(delay)


def _retry_after(answer: Answer) -> float | None:
    """The seconds of `Retry-After`; dates, which no API server sends, count as absent."""
    given = answer.headers.get("retry-after", "") if answer.code in _BUSY else ""
    return float(given) if given.isdecimal() else None
