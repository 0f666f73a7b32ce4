"""Results of many calls, one after the other, in bounded memory."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from rota.python.futures import Future
from rota.python.options import OptionError

R = TypeVar("R")


class Submitter(Protocol):
    """A client."""

    def map(self, function: Callable[..., R], /, *iterables: Iterable[Any]) -> list[Future[R]]:
        """Submit one call per item."""
        ...


def results(
    client: Submitter, function: Callable[..., R], items: Iterable[tuple[Any, ...]], *, window: int, ordered: bool
) -> Iterator[R]:
    """The results of a call per item; at most `window` calls are unfinished or unread."""
    if window < 1:
        raise OptionError(f"window={window!r} lets no call run", "write 1 or more")
    return _results(client, function, iter(items), window, ordered)


def _results(
    client: Submitter, function: Callable[..., R], items: Iterator[tuple[Any, ...]], window: int, ordered: bool
) -> Iterator[R]:
    going: collections.deque[Future[R]] = collections.deque()
    step = max(1, window // 4)
    try:
        while True:
            room = window - len(going)
            if room >= min(step, window) or not going:
                batch = [args for _, args in zip(range(room), items, strict=False)]
                if batch:
                    going.extend(client.map(function, *zip(*batch, strict=True)))
            if not going:
                return
            if ordered:
                yield going.popleft().result()
                continue
            done, left = concurrent.futures.wait(going, return_when=concurrent.futures.FIRST_COMPLETED)
            going = collections.deque(one for one in going if one in left)
            for future in done:
                yield future.result()
    finally:
        for future in going:
            future.cancel()
