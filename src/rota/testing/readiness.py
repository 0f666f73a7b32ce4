"""How long a server keeps `/readyz` waiting on a connection of its own while something else is done to it."""

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from typing import Final

from rota.kit import system
from rota.testing.servers.rota import RotaServer

#: What no request may delay the answer to another connection by, on a machine with nothing else to do.
BOUND_S: Final = 0.2
_PAUSE_S: Final = 0.01


class Readiness:
    """A thread that asks again and again; use `watched` around what is to be measured."""

    def __init__(self, server: RotaServer) -> None:
        self._server: Final = server
        self._clock: Final = system.SystemClock()
        #: A busy machine delays everything: what it takes when nothing is done is measured first.
        self.bound_s: Final = max(BOUND_S, 3 * self._worst_of(lambda: threading.Event().wait(1.0)))

    def worst_s(self, work: Callable[[], object]) -> float:
        """The longest that an answer took while `work` ran."""
        return self._worst_of(work)

    def _worst_of(self, work: Callable[[], object]) -> float:
        with self._watched() as durations:
            work()
        return max(durations)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[list[float]]:
        durations: list[float] = []
        over, begun = threading.Event(), threading.Event()
        thread = threading.Thread(target=self._watch, args=(durations, begun, over))
        thread.start()
        begun.wait()
        try:
            yield durations
        finally:
            over.set()
            thread.join()

    def _watch(self, durations: list[float], begun: threading.Event, over: threading.Event) -> None:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._server.port, timeout=120, context=self._server.tls()
        )
        connection.connect()
        with contextlib.closing(connection):
            while True:
                start = self._clock.monotonic()
                connection.request("GET", "/readyz")
                answer = connection.getresponse()
                answer.read()
                durations.append(self._clock.monotonic() - start)
                assert answer.status == http.HTTPStatus.OK, "the server is not ready"
                begun.set()
                if over.wait(_PAUSE_S):
                    return
