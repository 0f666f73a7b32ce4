"""The leases of one shape, and the calls that wait for them. It runs in the client's event loop.

Calls wait here until a worker takes them. A call that may have started is repeated only if its options allow that; one
that certainly has not started, or whose worker was taken away by the cluster, moves to another worker.
"""

import asyncio
import contextlib
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rota.kit import logs
from rota.python import lease_policy, lease_wire, leased_calls
from rota.python.failures import TaskLost, WrongEnvironment
from rota.python.lease import Lease
from rota.python.lease_policy import Demand
from rota.python.leased_calls import LeasedCall
from rota.python.options import Options
from rota.python.remote_results import Remote

#: How often it is considered whether leases are missing, and whether some are idle.
_TICK_S: Final = 0.1
#: How long to wait for the cluster to say why a worker is gone.
_REASON_S: Final = 10.0
#: Leases that fail one after the other before their calls do.
_MOST_FAILURES: Final = 3
#: Waiting calls that are told what they wait for.
_MOST_TOLD: Final = 1000
_log: Final = logs.get("rota")


@dataclass(slots=True)
class Counts:
    """Calls of a client, by their state."""

    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    repeated: int = 0


class Surroundings(Protocol):
    """What a pool needs of its client."""

    counts: Counts

    def lease(self, options: Options, shape: str, pool: "Pool") -> Lease:
        """Ask for a lease; the pool's `accepted` is called with whether the cluster took it."""
        ...

    def end_lease(self, lease: Lease) -> None:
        """Remove the Job of a lease."""
        ...

    def settle(self, call: LeasedCall, frame: lease_wire.Frame) -> None:
        """Set the result of a call."""
        ...

    def fail(self, call: LeasedCall, problem: BaseException) -> None:
        """Set the exception of a call."""
        ...

    def remote(self, call: LeasedCall, lease: Lease, size: int) -> Remote:
        """Set the result of a call to one that stays with the worker."""
        ...

    def took(self, call: LeasedCall) -> None:
        """A call is not waiting any more, so its arguments need no more space here."""
        ...

    def number(self) -> int:
        """A new number, for values that are sent to a worker."""
        ...


class Pool:
    """Leases of one shape."""

    def __init__(self, options: Options, shape: str, around: Surroundings, *, most: int, idle_s: float) -> None:
        self.options: Final = options
        self.shape: Final = shape
        self.leases: Final[dict[int, Lease]] = {}
        self._around: Final = around
        self._most: Final = most
        self._idle_s: Final = idle_s
        self._loop: Final = asyncio.get_running_loop()
        self._waiting: Final[deque[LeasedCall]] = deque()
        self._estimates: Final[dict[bytes, float]] = {}
        self._failures = 0
        self._ticking: asyncio.TimerHandle | None = None
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self.closed = False

    # --- calls --------------------------------------------------------------------------------------------------------

    def add(self, calls: Iterable[LeasedCall]) -> None:
        """Take calls."""
        for call in calls:
            if call.needs:
                self._begin(self._when_ready(call))
            else:
                self._enqueue(call)
        self.advance()

    def _enqueue(self, call: LeasedCall, *, first: bool = False) -> None:
        call.estimate_s = self._estimates.get(call.function.digest)
        if first:
            self._waiting.appendleft(call)
        else:
            self._waiting.append(call)

    async def _when_ready(self, call: LeasedCall) -> None:
        """Queue a call when all that it needs is done; it fails with the first of them that fails."""
        for need in call.needs:
            done = asyncio.Event()
            need.add_done_callback(lambda _, done=done: self._loop.call_soon_threadsafe(done.set))  # type: ignore[misc]
            await done.wait()
            problem = CancelledNeed(need.name) if need.cancelled() else need.exception(0)
            if problem is not None:
                self._around.fail(call, problem)
                return
        self._enqueue(call)
        self.advance()

    def cancel(self, call: LeasedCall) -> None:
        """Stop a call whose future was cancelled."""
        if call.lease is not None:
            call.lease.send(lease_wire.CANCEL, call.number)

    @property
    def waiting(self) -> int:
        """The number of calls that no worker has."""
        return len(self._waiting)

    def tell_why(self, why: str) -> None:
        """Tell the first of the waiting calls why there is no worker for them."""
        for call in itertools.islice(self._waiting, _MOST_TOLD):
            call.future.progressed(phase="pending", node="", pod="", why=why)

    def advance(self) -> None:
        """Give calls to workers, and ask for more workers if these do not suffice."""
        if self.closed:
            return
        self._dispatch()
        self._grow()
        if self._ticking is None and (self._waiting or self.leases):
            self._ticking = self._loop.call_later(_TICK_S if self._waiting else 10 * _TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        now = self._loop.time()
        for lease in list(self.leases.values()):
            idle = lease.takes_calls and not lease.calls and not lease.held and not self._waiting
            if idle and now - lease.idle_since > self._idle_s:
                self.give_back(lease)
        self.advance()

    def _dispatch(self) -> None:
        while self._waiting:
            call = self._waiting[0]
            if call.future.cancelled():
                self._waiting.popleft()
                self._around.took(call)
                continue
            lease = self._lease_for(call)
            if lease is None:
                return
            self._waiting.popleft()
            self._around.took(call)
            if call.needs:
                self._begin(self._run_with_needs(call, lease))
            else:
                self._run(call, lease, [])

    def _lease_for(self, call: LeasedCall) -> Lease | None:
        able = [
            one
            for one in self.leases.values()
            if one.takes_calls
            and not one.held_up
            and lease_policy.takes_another(len(one.calls) + one.reserved, one.ahead_s, call.estimate_s)
        ]
        if not able:
            return None
        if call.needs:
            remotes = [one.remote for one in call.needs]
            near = lease_policy.nearest(
                (one.lease.number, one.size) for one in remotes if one is not None and one.lease is not None
            )
            for lease in able:
                if lease.number == near:
                    return lease
        return min(able, key=lambda one: (len(one.calls), one.ahead_s))

    def _run(self, call: LeasedCall, lease: Lease, refs: list[int]) -> None:
        call.future.progressed(phase="pending", node=lease.node, pod=lease.future.pod)
        lease.run(call, refs)

    async def _run_with_needs(self, call: LeasedCall, lease: Lease) -> None:
        """Bring what a call needs to its worker, unless it is there already; then run it."""
        lease.reserved += 1
        refs: list[int] = []
        put: list[int] = []
        try:
            for need in call.needs:
                remote = need.remote
                if remote is not None and remote.lease is not None and remote.lease.number == lease.number:
                    refs.append(remote.number)
                    continue
                frame = await remote.bring() if remote is not None else leased_calls.frame_of(need.result(0))
                number = self._around.number()
                lease.send(lease_wire.PUT, number, flags=frame.flags, meta=frame.meta, buffers=frame.buffers)
                refs.append(number)
                put.append(number)
        except Exception as problem:  # noqa: BLE001 - the future gets every error
            self._around.fail(call, problem)
            return
        finally:
            lease.reserved -= 1
        if not lease.takes_calls or call.future.cancelled():
            self._enqueue(call, first=True)
            self.advance()
            return
        call.put = put
        self._run(call, lease, refs)

    # --- leases -------------------------------------------------------------------------------------------------------

    def _grow(self) -> None:
        leases = [one for one in self.leases.values() if not one.ended]
        each = self._estimates.get(self._waiting[0].function.digest) if self._waiting else None
        demand = Demand(
            waiting=len(self._waiting),
            expected_s=None if each is None else each * len(self._waiting),
            ready=sum(one.takes_calls for one in leases),
            occupied=sum(one.takes_calls and one.occupied for one in leases),
            starting=sum(not one.ready for one in leases),
            unplaced=any(one.future.why for one in leases if not one.ready),
            most=self._most,
        )
        for _ in range(lease_policy.leases_to_add(demand)):
            made = self._around.lease(self.options, self.shape, self)
            self.leases[made.number] = made

    def give_back(self, lease: Lease) -> None:
        """End a lease that is not needed."""
        self.leases.pop(lease.number, None)
        lease.give_back()
        for remote in list(lease.held.values()):
            remote.gone()
        self._around.end_lease(lease)

    def refused(self, lease: Lease, problem: BaseException) -> None:
        """The cluster did not take a lease: neither will it take another one of this shape now."""
        self.leases.pop(lease.number, None)
        lease.close()
        if not self.leases:
            self._fail_waiting(lambda _: problem)

    def _fail_waiting(self, problem: Callable[[LeasedCall], BaseException]) -> None:
        while self._waiting:
            call = self._waiting.popleft()
            self._around.took(call)
            self._around.fail(call, problem(call))

    def on_ready(self, lease: Lease) -> None:
        """See `lease.Events`."""
        self._failures = 0
        lease.idle_since = self._loop.time()
        self.advance()

    def on_lost(self, lease: Lease, reason: BaseException | None) -> None:
        """See `lease.Events`."""
        self._begin(self._lost(lease, reason))

    async def _lost(self, lease: Lease, reason: BaseException | None) -> None:
        """Repeat or fail the calls of a worker that is gone."""
        if reason is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REASON_S if lease.calls and not lease.leaving else 0.0):
                    reason = await lease.reason()
        self.leases.pop(lease.number, None)
        self._around.end_lease(lease)
        for remote in list(lease.held.values()):
            remote.gone()
        lease.held.clear()
        for number in reversed(list(lease.calls)):
            call = lease.done_with(number)
            assert call is not None, "it was just listed"
            if lease.leaving:
                self._move(call, "the cluster took its worker away")
            elif call.may_repeat():
                self._move(call, "its worker was lost")
            else:
                name = call.future.name
                self._around.fail(call, leased_calls.loss_of(reason, task=name, node=lease.node))
        if not lease.ready:
            self._not_started(reason)
        self.advance()

    def _not_started(self, reason: BaseException | None) -> None:
        """A lease ended before it took calls; if that is for good, or happens again and again, the calls fail."""
        self._failures += 1
        hopeless = isinstance(reason, WrongEnvironment)
        others = any(one.takes_calls for one in self.leases.values())
        if others or not (hopeless or self._failures >= _MOST_FAILURES):
            return
        why = reason or TaskLost("its workers end before they take calls; `rota get jobs` shows them")
        self._failures = 0

        def problem(call: LeasedCall) -> BaseException:
            return type(why)(str(why), task=call.future.name) if isinstance(why, TaskLost) else why

        self._fail_waiting(problem)

    def _move(self, call: LeasedCall, why: str) -> None:
        if call.future.cancelled():
            return
        self._around.counts.repeated += 1
        _log.warning(f"{call.future.name} is run again: {why}")
        self._enqueue(call, first=True)

    # --- frames -------------------------------------------------------------------------------------------------------

    def on_frame(self, lease: Lease, frame: lease_wire.Frame) -> None:
        """See `lease.Events`."""
        match frame.kind:
            case lease_wire.RESULT:
                self._result(lease, frame)
            case lease_wire.STARTED:
                self._started(lease, frame.call)
            case lease_wire.RECALLED:
                call = lease.done_with(frame.call)
                if call is not None and not call.future.cancelled():
                    self._enqueue(call, first=True)
            case lease_wire.DIED:
                self._died(lease, frame)
            case lease_wire.PRINTED:
                lease.printed(frame)
            case lease_wire.LEAVING:
                for number in list(lease.held):
                    lease.send(lease_wire.FETCH, number)

    def on_frames_end(self, lease: Lease) -> None:
        """See `lease.Events`."""
        if self._waiting:
            self.advance()

    def _started(self, lease: Lease, number: int) -> None:
        """A call takes a while: those behind it go elsewhere."""
        call = lease.calls.get(number)
        if call is None:
            return
        call.started, call.started_at = True, self._loop.time()
        call.future.progressed(phase="running", node=lease.node, pod=lease.future.pod)
        for other in lease.calls:
            if other != number:
                lease.send(lease_wire.RECALL, other)

    def _result(self, lease: Lease, frame: lease_wire.Frame) -> None:
        remote = lease.held.pop(frame.call, None)
        if remote is not None:  # it was fetched
            remote.arrived(frame)
            lease.send(lease_wire.DROP, frame.call)
            return
        call = lease.done_with(frame.call)
        if call is None:
            return
        self._drop_needs(lease, call)
        lease.count += 1
        took, printed, size, _ = lease_wire.read_result(frame.meta)
        digest = call.function.digest
        self._estimates[digest] = lease_policy.estimate(self._estimates.get(digest), took)
        if len(self._estimates) > 10_000:
            self._estimates.clear()
        if printed:
            call.future.printed = printed
        if frame.flags & lease_wire.PROBLEM:
            problem = leased_calls.problem_of(frame, task=call.future.name, node=lease.node)
            self._failed(call, problem, hopeless=problem.exit_code in leased_calls.HOPELESS)
        elif frame.flags & lease_wire.RAISED and call.retries_left:
            self._failed(call, None)
        elif frame.flags & lease_wire.HELD:
            lease.held[frame.call] = self._around.remote(call, lease, size)
        else:
            self._around.settle(call, frame)

    def _drop_needs(self, lease: Lease, call: LeasedCall) -> None:
        for number in call.put:
            lease.send(lease_wire.DROP, number)
        call.put = []

    def _died(self, lease: Lease, frame: lease_wire.Frame) -> None:
        call = lease.done_with(frame.call)
        if call is None or call.future.cancelled():
            return
        self._drop_needs(lease, call)
        said: dict[str, Any] = json.loads(bytes(frame.meta))
        call.future.printed = str(said.get("printed") or "").encode()
        self._failed(call, leased_calls.death_of(said, task=call.future.name, node=lease.node))

    def _failed(self, call: LeasedCall, problem: BaseException | None, *, hopeless: bool = False) -> None:
        """Try a call again, or fail it."""
        delay = None if hopeless else call.retry_delay_s()
        if delay is None:
            assert problem is not None, "a call without retries left has its exception set"
            self._around.fail(call, problem)
            return
        self._around.counts.repeated += 1
        self._loop.call_later(delay, self._again, call)

    def _again(self, call: LeasedCall) -> None:
        self._enqueue(call)
        self.advance()

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> list[LeasedCall]:
        """Give back all leases; the calls that had not ended."""
        self.closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        left = [*self._waiting, *(call for lease in self.leases.values() for call in lease.calls.values())]
        self._waiting.clear()
        for lease in list(self.leases.values()):
            self.give_back(lease)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return left

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class CancelledNeed(TaskLost):
    """A future that a call needs was cancelled."""

    def __init__(self, name: str, **more: Any) -> None:
        super().__init__(f"{name}, whose result it needs, was cancelled", **more)
