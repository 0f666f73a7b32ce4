"""Receives notifications of other processes' commits on a session of its own.

A notification is a hint without content: the changes are read from the log. Hints are lost while the connection is
down, so a new connection begins with one of our own.
"""

from collections.abc import Callable

from rota.kit import backoff, clock, logs, tasks
from rota.store import errors
from rota.store.backends.postgres import faults, schema, sessions, statements
from rota.store.backends.postgres.sessions import Address

log = logs.get(__name__)


class Listener:
    """Keeps a listening session until it is closed."""

    def __init__(
        self, address: Address, name: str, heard: Callable[[int], None], *, time: clock.Clock, rng: backoff.Rng
    ) -> None:
        """`heard` gets the server process that announced a commit; 0 when notifications may have been missed."""
        self._address = address
        self._name = name
        self._heard = heard
        self._time = time
        self._pause = backoff.Backoff(backoff.Policy(initial_s=0.05, cap_s=2.0), rng)
        self._supervisor = tasks.Supervisor("store-listener", clock=time, rng=rng)

    def start(self) -> None:
        """Start listening."""
        self._supervisor.start("listen", self._run)

    async def close(self) -> None:
        """Stop listening and close the session."""
        await self._supervisor.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except errors.StoreError as problem:
                if not self._pause.failures:
                    log.warning("listening for commits failed, trying again", problem=str(problem))
                await self._time.sleep(self._pause.next())

    async def _listen(self) -> None:
        session = await sessions.connect(self._address)
        try:
            async with sessions.used(session, self._address):
                await session.execute(f"LISTEN {schema.CHANNEL}")
            while True:
                async with sessions.used(session, self._address):
                    await statements.register(session, self._name)
                self._pause.reset()
                self._heard(0)
                with faults.translated(self._address.place):
                    async for notice in session.notifies(timeout=schema.SEEN_EVERY_S):
                        self._heard(notice.pid)
        finally:
            await session.close()
