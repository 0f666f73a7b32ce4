"""A standby: a store that follows another one, and its promotion.

Each transaction of the standby holds whole revisions of its primary and the position after them, so at any moment the
standby is exactly the primary at its position. Revisions of the standby are its own and lie far above the
primary's: clients that change over list again. A promotion marks the primary as superseded where it can, applies what
the primary still wrote before the mark, and raises the epoch; the standby process then finds that it has been promoted
and ends.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from rota.kit import clock, logs
from rota.kit.metrics import Metrics
from rota.store import errors, roles
from rota.store.roles import PRIMARY, STANDBY, SUPERSEDED, Change, Recorded, Role
from rota.store.standby_sources import Snapshot, Source, Step, is_bookkeeping
from rota.store.store_interface import MOST_WRITES, Delete, Entry, Put, Store

log = logs.get(__name__)

_RETRY_S: Final = 1.0
_LOOK_S: Final = 1.0
_PAGE: Final = 500
#: One write of a transaction is the record.
_MOST_CHANGES: Final = MOST_WRITES - 1
#: Revisions are gathered up to this much; etcd takes 1.5 MiB in a request.
_MOST_BYTES: Final = 512 * 1024


class Promoted(errors.StoreError):
    """The standby was promoted: it follows nothing any more."""


class _Overtaken(Exception):
    """Another process moved the standby's position; go on from there."""


class StandbyMetrics:
    """The metrics of a standby."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = metrics or Metrics("standby")
        self._metrics: Final = metrics
        self.position: Final = metrics.gauge("position", "The revision of the primary that the standby holds.")
        self.errors: Final = metrics.counter("errors_total", "How often the primary or the standby did not answer.")
        self.syncs: Final = metrics.counter(
            "syncs_total", "How often the standby was compared with its primary as a whole."
        )

    def follow_lag(self, lag_s: Callable[[], float]) -> None:
        """Export for how long the oldest known change that is not applied has been waiting."""
        meaning = "For how long the oldest known change that the standby does not hold has been waiting."
        self._metrics.follow("lag_seconds", meaning, (), lambda: {(): lag_s()})


class Standby:
    """Keeps one store equal to a primary. `run` it until it is cancelled."""

    def __init__(
        self,
        target: Store,
        source: Source,
        *,
        time: clock.Clock,
        on_position: Callable[[int], None] = lambda _: None,
        metrics: StandbyMetrics | None = None,
    ) -> None:
        self._target: Final = target
        self._source: Final = source
        self._time: Final = time
        self._on_position: Final = on_position
        self._metrics: Final = metrics or StandbyMetrics()
        self._metrics.follow_lag(self._lag_s)
        self._recorded = Recorded(Role(), 0)
        self._behind_since: float | None = time.monotonic()

    async def run(self, *, until: int | None = None) -> None:
        """Follow the primary; with `until`, only to this revision. Raises Promoted when the standby is promoted."""
        await self._begin()
        working = [asyncio.create_task(self._run(until)), asyncio.create_task(self._look_at_role())]
        try:
            done, _ = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in working:
                one.cancel()
            await asyncio.wait(working)

    async def _look_at_role(self) -> None:
        """Find a promotion while the primary writes nothing more."""
        while True:
            await self._time.sleep(_LOOK_S)
            with contextlib.suppress(errors.Unavailable):
                _check_standby((await roles.read(self._target)).role)

    async def _run(self, until: int | None) -> None:
        missed = False
        while True:
            try:
                if missed:
                    await self._mark_syncing()
                    missed = False
                # Another process may have moved the position and not applied its rest: the next position would drop it.
                await self._apply_rest()
                if self._recorded.role.syncing:
                    await self._synchronize()
                if await self._follow(until):
                    return
            except _Overtaken:
                continue
            except (errors.Expired, errors.SlowWatcher) as problem:
                log.warning("changes of the primary were missed, comparing everything", why=str(problem))
                missed = True
            except errors.FutureRevision as problem:
                raise errors.StoreError(
                    f"the primary is older than its standby: {problem}",
                    "it was restored or is another store: make a new standby in an empty store",
                ) from problem
            except (errors.Unavailable, OSError) as problem:
                self._fall_behind()
                self._metrics.errors.inc()
                log.warning("cannot follow the primary, trying again", problem=str(problem))
                await self._time.sleep(_RETRY_S)

    async def _begin(self) -> None:
        """Read the position; an empty store gets the primary's state."""
        self._recorded = await roles.read(self._target)
        if self._recorded.revision:
            _check_standby(self._recorded.role)
            return
        snapshot = await self._source.snapshot()
        roles.check_writable(snapshot.role)
        role = msgspec.structs.replace(
            snapshot.role, role=STANDBY, position=snapshot.revision, at=snapshot.at, syncing=False, rest=(), identity=""
        )
        entries = [*snapshot.entries, Entry(roles.KEY, roles.encode(role), 0, 0)]
        await self._target.load(sorted(entries, key=lambda entry: entry.key), revision=snapshot.revision)
        self._recorded = await roles.read(self._target)
        self._reached()
        log.info("made a standby", entries=len(snapshot.entries), revision=snapshot.revision, epoch=role.epoch)

    async def _follow(self, until: int | None) -> bool:
        """Apply what happens in the primary; returns whether `until` was reached or the source was closed."""
        if until is not None and self._recorded.role.position >= until:
            return True
        async with contextlib.aclosing(self._source.steps(self._recorded.role.position)) as steps:
            async for step in steps:
                if step.revision > self._recorded.role.position:
                    self._fall_behind()
                    await self._apply(step)
                self._reached()
                if until is not None and self._recorded.role.position >= until:
                    break
        return True

    async def _apply(self, step: Step) -> None:
        gathered: dict[str, Change] = {}
        size = 0
        reached = self._recorded.role.position
        level = _level(step, self._recorded.role.level)
        for revision, changes in _by_revision(step, after=reached):
            more = sum(map(_size, changes.values()))
            if gathered and (len(gathered.keys() | changes.keys()) > _MOST_CHANGES or size + more > _MOST_BYTES):
                await self._commit(list(gathered.values()), reached, step.at, level)
                gathered, size = {}, 0
            gathered.update(changes)
            size += more
            reached = revision
        await self._commit(list(gathered.values()), step.revision, step.at, level)

    async def _commit(self, changes: list[Change], position: int, at: float, level: int) -> None:
        """Write changes with the position after them; all of them count, also those that do not fit."""
        fitting, rest = changes[:_MOST_CHANGES], changes[_MOST_CHANGES:]
        epoch = self._recorded.role.epoch
        role = Role(role=STANDBY, epoch=epoch, position=position, at=at, rest=tuple(rest), level=level)
        await self._write(fitting, role)
        await self._apply_rest()

    async def _apply_rest(self) -> None:
        role = self._recorded.role
        if role.rest:
            await self._write(list(role.rest), msgspec.structs.replace(role, rest=()))

    async def _write(self, changes: list[Change], role: Role) -> None:
        revision = await roles.write(self._target, role, self._recorded, writes=_writes(changes))
        if revision is not None:
            self._recorded = Recorded(role, revision)
            return
        self._recorded = await roles.read(self._target)
        _check_standby(self._recorded.role)
        raise _Overtaken

    # Making a standby equal again that has missed changes

    async def _mark_syncing(self) -> None:
        await self._write([], msgspec.structs.replace(self._recorded.role, syncing=True))

    async def _synchronize(self) -> None:
        """Write the differences between the primary's newest state and the standby."""
        self._metrics.syncs.inc()
        snapshot = await self._source.snapshot()
        differing = await self._differences(snapshot)
        role = self._recorded.role
        for portion in _portions(differing):
            await self._write(portion, role)
        level = snapshot.role.level
        done = Role(role=STANDBY, epoch=role.epoch, position=snapshot.revision, at=snapshot.at, level=level)
        await self._write([], done)
        self._reached()
        log.info("the standby is equal to its primary again", changes=len(differing), revision=snapshot.revision)

    async def _differences(self, snapshot: Snapshot) -> list[Change]:
        wanted = {entry.key: entry.value for entry in snapshot.entries}
        found: list[Change] = []
        after = ""
        while True:
            page = await self._target.list("", limit=_PAGE, after=after)
            for entry in page.entries:
                if is_bookkeeping(entry.key):
                    continue
                value = wanted.pop(entry.key, None)
                if value != entry.value:
                    found.append(Change(entry.key, value))
            if not page.remaining:
                break
            after = page.entries[-1].key
        return found + [Change(key, value) for key, value in wanted.items()]

    # What is shown

    def _reached(self) -> None:
        self._behind_since = None
        self._metrics.position.set(self._recorded.role.position)
        self._on_position(self._recorded.role.position)

    def _fall_behind(self) -> None:
        if self._behind_since is None:
            self._behind_since = self._time.monotonic()

    def _lag_s(self) -> float:
        return 0.0 if self._behind_since is None else self._time.monotonic() - self._behind_since


def _by_revision(step: Step, *, after: int) -> list[tuple[int, dict[str, Change]]]:
    """The changes of a step that are not applied yet, by revision and key."""
    found: list[tuple[int, dict[str, Change]]] = []
    for change in step.changes:
        if change.revision <= after:
            continue
        if not found or found[-1][0] != change.revision:
            found.append((change.revision, {}))
        if not is_bookkeeping(change.key):
            found[-1][1][change.key] = Change(change.key, change.value)
    return found


def _level(step: Step, before: int) -> int:
    """The primary's level after a step; its own record is not copied."""
    records = [one.value for one in step.changes if one.key == roles.KEY and one.value is not None]
    return roles.decode(records[-1]).level if records else before


def _portions(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """The changes in parts that each fit into a transaction."""
    portion: list[Change] = []
    size = 0
    for change in changes:
        more = _size(change)
        if portion and (len(portion) == _MOST_CHANGES or size + more > _MOST_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(change)
        size += more
    if portion:
        yield portion


def _size(change: Change) -> int:
    return len(change.key) + len(change.value or b"")


def _writes(changes: Iterable[Change]) -> list[Put | Delete]:
    return [Put(one.key, one.value) if one.value is not None else Delete(one.key) for one in changes]


def _check_standby(role: Role) -> None:
    if role.role == PRIMARY:
        raise Promoted(
            f"this store is a primary (epoch {role.epoch})",
            "name the store of a standby, or an empty one to make it one",
        )
    if role.role == SUPERSEDED:
        roles.check_writable(role)


class Promotion(Struct, frozen=True):
    """A promoted standby."""

    epoch: int
    #: The revision of the former primary that it holds, and when that was applied.
    position: int
    at: float


async def seal(primary: Store, standby: Recorded) -> int:
    """Mark a primary as superseded by a standby; returns the revision after which no master can write to it."""
    epoch = standby.role.epoch + 1
    while True:
        before = await roles.read(primary)
        if before.role.role == SUPERSEDED and before.role.epoch == epoch:
            return before.revision  # by an earlier attempt
        if before.role.role != PRIMARY or before.role.epoch != standby.role.epoch:
            raise errors.StoreError(
                f"that store is a {before.role.role} of epoch {before.role.epoch}, and not the primary of a standby of "
                f"epoch {standby.role.epoch}",
                "name the store that the standby follows",
            )
        superseded = msgspec.structs.replace(before.role, role=SUPERSEDED, epoch=epoch)
        if (revision := await roles.write(primary, superseded, before)) is not None:
            return revision


async def promote(target: Store, *, time: clock.Clock, primary: Store | None, source: Source | None) -> Promotion:
    """Make a standby the primary.

    With `primary`, its masters are fenced off first. With `source`, what it holds is applied first: with a primary,
    everything up to the fence.
    """
    recorded = await roles.read(target)
    if not recorded.revision:
        raise errors.StoreError("this store is no standby", "make one with: rota standby --from URL --store URL")
    _check_standby(recorded.role)
    until = None if primary is None else await seal(primary, recorded)
    if source is not None:
        if until is None:
            until = (await source.snapshot()).revision
        await Standby(target, source, time=time).run(until=until)
    while True:
        recorded = await roles.read(target)
        _check_standby(recorded.role)
        role = recorded.role
        if role.syncing:
            raise errors.StoreError(
                "the standby was being made equal to its primary and holds no whole state",
                "give --from to complete it, or restore a backup",
            )
        promoted = Role(epoch=role.epoch + 1, level=role.level, identity=roles.new_identity(role.level))
        # What is left of the position, at most one write, goes with the promotion.
        if await roles.write(target, promoted, recorded, writes=_writes(role.rest)) is not None:
            return Promotion(role.epoch + 1, role.position, role.at)
        await asyncio.sleep(0)  # the standby process moved the position
