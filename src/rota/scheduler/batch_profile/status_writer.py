"""Writes the statuses of groups and queues, with a limit of concurrent requests.

Only the newest status of an object is sent. A status may name an interval: then it is sent at most once in that time
for one object, so that thousands of waiting groups do not cause thousands of writes after every pass. Refusals are
reported after a pause that doubles with each refusal in a row, so that one object does not cause a pass after another.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, PatchType
from rota.kit import logs
from rota.kit.backoff import Policy
from rota.kit.clock import Clock
from rota.scheduler.batch_profile.kinds import Target

log = logs.get(__name__)

#: Concurrent writes.
AT_ONCE: Final = 8
#: Above this number, the times of writes that no interval can still concern are forgotten.
_MOST_TIMES: Final = 4096
#: No interval is longer.
_LONGEST_INTERVAL_S: Final = 300.0
#: The pauses after refusals.
_PAUSES: Final = Policy(initial_s=0.5, cap_s=300.0)


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A status of one object."""

    target: Target
    name: str
    status: Mapping[str, Any]
    namespace: str = ""
    uid: str = ""
    #: How long after the previous write of the object it may be sent.
    interval_s: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies the object."""
        return self.target[2], self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status that was not written."""

    write: StatusWrite
    error: Exception
    #: How many writes of the object have failed in a row.
    times: int


class StatusWriter:
    """Sends statuses while `run` runs."""

    def __init__(self, client: Client, *, clock: Clock, failed: Callable[[Refusal], None]) -> None:
        """`failed` is called for statuses that the server refused, after a pause."""
        self._client: Final = client
        self._clock: Final = clock
        self._failed: Final = failed
        self._waiting: Final[dict[tuple[str, str, str], StatusWrite]] = {}
        #: Statuses that wait for their time.
        self._later: Final[dict[tuple[str, str, str], StatusWrite]] = {}
        #: When each object was last written, the oldest first.
        self._sent_at: Final[dict[tuple[str, str, str], float]] = {}
        self._under_way: Final[dict[tuple[str, str, str], asyncio.Task[None]]] = {}
        #: How many writes of an object have failed in a row, and the pauses after which that is reported.
        self._refused: Final[dict[tuple[str, str, str], int]] = {}
        self._pauses: Final[dict[tuple[str, str, str], asyncio.Task[None]]] = {}
        #: Resources whose definition has no status subresource: there the status is a field like others; and resources
        #: that have one.
        self._plain: Final[set[Target]] = set()
        self._separate: Final[set[Target]] = set()

    def write(self, one: StatusWrite) -> None:
        """Queue a status."""
        now = self._clock.monotonic()
        if self._due(one) > now:
            self._later[one.key] = one
            return
        self._later.pop(one.key, None)
        self._waiting[one.key] = one
        asyncio.get_running_loop().call_soon(self._pump)

    def _due(self, one: StatusWrite) -> float:
        at = self._sent_at.get(one.key)
        return 0.0 if at is None else at + one.interval_s

    def flush(self) -> float | None:
        """Queue the statuses whose time has come; returns when the next ones are due."""
        now = self._clock.monotonic()
        due = [key for key, one in self._later.items() if self._due(one) <= now]
        for key in due:
            self._waiting[key] = self._later.pop(key)
        if due:
            self._pump()
        return min((self._due(one) for one in self._later.values()), default=None)

    def forget(self, key: tuple[str, str, str]) -> None:
        """The object was deleted."""
        for table in (self._waiting, self._later):
            table.pop(key, None)
        self._sent_at.pop(key, None)
        self._refused.pop(key, None)

    async def close(self) -> None:
        """Send nothing more, and wait for the writes in flight."""
        self._waiting.clear()
        self._later.clear()
        while self._under_way:
            await asyncio.wait(set(self._under_way.values()))
        for pause in self._pauses.values():
            pause.cancel()
        self._refused.clear()

    def _pump(self) -> None:
        room = AT_ONCE - len(self._under_way)
        if room <= 0 or not self._waiting:
            return
        now = self._clock.monotonic()
        while len(self._sent_at) > _MOST_TIMES:
            oldest = next(iter(self._sent_at))
            if now - self._sent_at[oldest] <= _LONGEST_INTERVAL_S:
                break
            del self._sent_at[oldest]
        for key in [key for key in self._waiting if key not in self._under_way][:room]:
            one = self._waiting.pop(key)
            self._sent_at.pop(key, None)
            self._sent_at[key] = now
            task = asyncio.get_running_loop().create_task(self._send(one))
            self._under_way[key] = task
            task.add_done_callback(partial(self._ended, key))

    def _ended(self, key: tuple[str, str, str], task: "asyncio.Task[None]") -> None:
        del self._under_way[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.exception("status write crashed", error=error, object=key)
        self._pump()

    async def _send(self, one: StatusWrite) -> None:
        patch: dict[str, Any] = {"status": one.status}
        if one.uid:
            patch["metadata"] = {"uid": one.uid}
        try:
            await self._patch(one, patch)
        except (errors.NotFound, errors.Conflict):
            # Deleted, or replaced by another object of that name.
            self.forget(one.key)
        except (errors.ApiError, TransportError) as error:
            log.warning("status not written", object=one.key, error=error)
            self._sent_at.pop(one.key, None)
            self._refuse(one, error)
        else:
            self._refused.pop(one.key, None)

    def _refuse(self, one: StatusWrite, error: Exception) -> None:
        """Report a refusal after a pause, unless one is to be reported already."""
        key = one.key
        if key in self._pauses:
            return
        times = self._refused.pop(key, 0) + 1
        self._refused[key] = times
        if len(self._refused) > _MOST_TIMES:
            del self._refused[next(iter(self._refused))]
        pause = asyncio.get_running_loop().create_task(self._report(Refusal(one, error, times)))
        self._pauses[key] = pause
        pause.add_done_callback(lambda _: self._pauses.pop(key))

    async def _report(self, refusal: Refusal) -> None:
        await self._clock.sleep(_PAUSES.ceiling(refusal.times))
        self._failed(refusal)

    async def _patch(self, one: StatusWrite, patch: dict[str, Any]) -> None:
        """Write a status; Volcano's definition of PodGroup has no status subresource, other definitions may have.

        A stock API server says of a subresource that does not exist that the object does not exist. So the first
        refusal of a resource is followed by a write without the subresource; what that changed tells them apart.
        """
        write = partial(self._client.patch, one.target, one.name, patch, type=PatchType.MERGE, namespace=one.namespace)
        if one.target in self._plain:
            await write()
            return
        try:
            await write(subresource="status")
        except errors.NotFound:
            if one.target in self._separate:
                raise
            status = (await write()).get("status") or {}
            if all(status.get(name) == value for name, value in one.status.items()):
                self._plain.add(one.target)
        else:
            self._separate.add(one.target)
