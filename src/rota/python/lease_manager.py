"""All leases of a client: takes calls from any thread, keeps one pool for each shape, and sets the results of futures.

The client's threads append calls to a list, and the event loop takes them from there together; so a call costs no
round trip between threads. A submission waits only while the arguments of waiting calls take too much memory.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import hashlib
import itertools
import math
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from rota.kit import logs, system
from rota.kit.clock import Clock
from rota.python import (
    lease_connection,
    lease_keys,
    lease_runner,
    lease_tunnel,
    lease_wire,
    remote_results,
    serialization,
)
from rota.python.failures import NotReachable, TaskLost
from rota.python.futures import Future, Owner
from rota.python.lease import Lease, LeaseFuture, job_name
from rota.python.lease_pool import Counts, Pool
from rota.python.leased_calls import LeasedCall, PackedFunction
from rota.python.loops import LoopThread
from rota.python.options import Options
from rota.python.remote_results import Holder, Remote
from rota.python.serialization import Packed
from rota.python.sessions import Call, Session

#: The memory that waiting calls may take before a submission waits.
MOST_WAITING_BYTES: Final = 256 << 20
#: The most leases of a shape, and the seconds that an unused one is kept.
LEASES: Final = 32
IDLE_S: Final = 60.0
#: Attempts to connect directly, some milliseconds apart, before a way through a master is looked for.
_ATTEMPTS: Final = 1_000
#: The label of the lease that an actor lives in.
ACTOR_LABEL: Final = "rota.dev/actor"
#: How long the Job of a lease is kept after its end.
_KEPT_S: Final = 60.0
_log: Final = logs.get("rota")


class LeaseManager:
    """A client's leases."""

    def __init__(
        self, owner: Owner, session: Session, loop: LoopThread, *, clock: Clock, most: int, idle_s: float
    ) -> None:
        self.counts = Counts()
        self._owner: Final = owner
        self._session: Final = session
        self._loop: Final = loop
        self._clock: Final = clock
        self._most: Final = most
        self._idle_s: Final = idle_s
        self._rng: Final = system.rng()
        self._numbers: Final = itertools.count(1)
        self._pools: Final[dict[str, Pool]] = {}
        self._calls: Final[dict[str, LeasedCall]] = {}
        self._inbox: Final[collections.deque[LeasedCall]] = collections.deque()
        self._waiting_bytes = 0
        self._space: Final = threading.Condition()
        self._woken = False
        self._stops: Final[set[threading.Event]] = set()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._closed = False

    # --- from threads -------------------------------------------------------------------------------------------------

    def function(self, function: Callable[..., Any]) -> PackedFunction:
        """A function, pickled as it is now."""
        name = serialization.name_of(function)
        content = serialization.pack_function(function, name=name)
        return PackedFunction(name=name, digest=hashlib.sha256(content).digest(), content=content)

    def call(
        self,
        future: Future[Any],
        packed: PackedFunction,
        function: Callable[..., Any],
        args: Iterable[Any],
        kwargs: dict[str, Any],
        options: Options,
    ) -> LeasedCall:
        """A call; futures among its arguments stand for their results."""
        needs: list[Future[Any]] = []

        def promised(value: Any) -> int | None:
            if not isinstance(value, Future):
                return None
            needs.append(value)
            return len(needs) - 1

        arguments, buffers = serialization.pack_arguments(
            function, tuple(args), kwargs, name=packed.name, promised=promised
        )
        return LeasedCall(
            number=next(self._numbers),
            future=future,
            function=packed,
            arguments=arguments,
            buffers=buffers,
            options=options,
            needs=needs,
        )

    def submit(self, call: LeasedCall) -> None:
        """Take a call; waits while the arguments of others take too much memory."""
        with self._space:
            self._space.wait_for(lambda: self._closed or self._waiting_bytes < MOST_WAITING_BYTES)
            if self._closed:
                raise RuntimeError("this client is closed; make another one")
            self._waiting_bytes += call.size
            self._inbox.append(call)
            wake, self._woken = not self._woken, True
        if wake:
            self._loop.soon(self._take)

    def ensure(self, options: Options) -> None:
        """Wait until the cluster has taken a lease of this shape, unless there is one; raises what it refuses."""
        if options.shape not in self._pools:
            self._loop.call(self._opened(options))

    # --- in the loop --------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        with self._space:
            self._woken = False
            taken = list(self._inbox)
            self._inbox.clear()
        by_shape: dict[str, list[LeasedCall]] = {}
        for call in taken:
            self.counts.submitted += 1
            if call.future.cancelled():
                self.took(call)
                continue
            self._calls[call.future.name] = call
            by_shape.setdefault(call.options.shape, []).append(call)
        for shape, calls in by_shape.items():
            self._pool(calls[0].options, shape).add(calls)

    def _pool(self, options: Options, shape: str) -> Pool:
        if shape not in self._pools:
            self._pools[shape] = self._new_pool(options, shape)
        return self._pools[shape]

    def _new_pool(self, options: Options, shape: str) -> Pool:
        if ACTOR_LABEL in options.labels:  # one worker, which is kept while the actor lives
            return Pool(options, shape, self, most=1, idle_s=math.inf)
        return Pool(options, shape, self, most=self._most, idle_s=self._idle_s)

    async def end_pool(self, options: Options) -> None:
        """Give back the leases of a shape; its unfinished calls fail."""
        pool = self._pools.pop(options.shape, None)
        for call in await pool.close() if pool is not None else ():
            if not call.future.done():
                self.fail(call, TaskLost(f"{call.future.name} had not ended when its actor was closed"))

    async def _opened(self, options: Options) -> None:
        """A pool with its first lease, which the cluster has accepted."""
        shape = options.shape
        pool = self._new_pool(options, shape)
        lease, call = self._prepared(options, shape, pool)
        await self._session.submit(call)
        if shape in self._pools:  # of another thread at the same time
            self.end_lease(lease)
            return
        pool.leases[lease.number] = lease
        self._pools[shape] = pool
        pool.advance()

    def lease(self, options: Options, shape: str, pool: Pool) -> Lease:
        """See `lease_pool.Surroundings`."""
        lease, call = self._prepared(options, shape, pool)
        self._begin(self._ask(lease, call, pool))
        return lease

    async def _ask(self, lease: Lease, call: Call, pool: Pool) -> None:
        try:
            await self._session.submit(call)
        except Exception as problem:  # noqa: BLE001 - the futures get every error
            pool.refused(lease, problem)

    def _prepared(self, options: Options, shape: str, pool: Pool) -> tuple[Lease, Call]:
        """A lease, and the call that is its worker's program."""
        keys = lease_keys.fresh(self._clock.now())
        ports = lease_connection.candidate_ports(self._rng)
        future = LeaseFuture(self._owner, job_name())
        lease = Lease(next(self._numbers), future, keys, ports, pool)
        future.on_progress = functools.partial(self._progressed, lease, pool)
        future.add_done_callback(lambda _: self._loop.soon(functools.partial(self._job_ended, lease)))
        given = {**keys.for_worker(), "ports": ports}
        changed = options.changed(retries=0, timeout=None, keep=_KEPT_S, name="", durable=True, idempotent=False)
        if options.elsewhere:
            content = serialization.pack(exec, (serialization.lease_text(), {"GIVEN": given}), {}, name="lease")
        else:
            content = serialization.pack(lease_runner.serve, (given,), {}, name="lease")
        packed = Packed(name="lease", content=content)
        return lease, Call(future=future, packed=packed, options=changed, lease=shape)

    def _progressed(self, lease: Lease, pool: Pool, address: str) -> None:
        if address and not lease.connecting and not lease.ended:
            lease.connecting = True
            self._begin(self._connect(lease, address))
        elif lease.future.why:
            pool.tell_why(lease.future.why)

    async def _connect(self, lease: Lease, address: str) -> None:
        stop = threading.Event()
        self._stops.add(stop)
        connect = functools.partial(
            lease_connection.connect, address, lease.ports, lease.keys, attempts=_ATTEMPTS, stop=stop
        )
        connecting = asyncio.get_running_loop().run_in_executor(None, connect)
        try:
            connection = await asyncio.shield(connecting)
        except lease_connection.NoWay as problem:
            await self._carry(lease, address, problem, stop)
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_late)
            raise
        else:
            if connection is not None:
                lease.connected(connection)
        finally:
            stop.set()
            self._stops.discard(stop)

    async def _carry(self, lease: Lease, address: str, direct: lease_connection.NoWay, stop: threading.Event) -> None:
        """Reach a worker through a master; returns when that connection is over."""
        _log.info("a leased worker is reached through a master", lease=lease.future.name, direct=str(direct))
        target = lease_tunnel.Target(
            endpoint=self._session.endpoint,
            namespace=self._session.namespace,
            pod=lease.future.pod,
            address=address,
            ports=lease.ports,
            keys=lease.keys,
        )
        try:
            await lease_tunnel.carry(target, direct, connected=lease.connected, stop=stop, clock=self._clock)
        except lease_connection.NoWay as problem:
            lease.lose(NotReachable(f"the worker {lease.future.name} cannot be reached: {problem}"))

    def _job_ended(self, lease: Lease) -> None:
        """The pod of a lease is gone; its connection may not have noticed."""
        future = lease.future
        if not lease.ended:
            problem = None if future.cancelled() else future.exception(0)
            lease.lose(problem or TaskLost(f"the worker {future.name} ended by itself", task=future.name))

    def end_lease(self, lease: Lease) -> None:
        """See `lease_pool.Surroundings`."""
        lease.close()
        self._session.cancel(lease.future.name)

    # --- results ------------------------------------------------------------------------------------------------------

    def settle(self, call: LeasedCall, frame: lease_wire.Frame) -> None:
        """See `lease_pool.Surroundings`. Values of types that run no code are read here, others in a thread."""
        self._calls.pop(call.future.name, None)
        if frame.flags & lease_wire.RAISED:
            self.counts.failed += 1
        else:
            self.counts.succeeded += 1
        if frame.flags & lease_wire.PLAIN and call.future.settle_quietly(
            remote_results.read_value(frame, call.future.name)
        ):
            return
        self._in_thread(self._settled, call.future, frame)

    def _settled(self, future: Future[Any], frame: lease_wire.Frame) -> None:
        future.settle(*remote_results.read_value(frame, future.name))

    def _in_thread(self, work: Callable[..., None], *args: Any) -> None:
        asyncio.get_running_loop().run_in_executor(None, work, *args)

    def fail(self, call: LeasedCall, problem: BaseException) -> None:
        """See `lease_pool.Surroundings`."""
        self._calls.pop(call.future.name, None)
        self.counts.failed += 1
        self._in_thread(call.future.settle, None, problem)

    def remote(self, call: LeasedCall, lease: Lease, size: int) -> Remote:
        """See `lease_pool.Surroundings`."""
        self._calls.pop(call.future.name, None)
        self.counts.succeeded += 1
        remote = Remote(call.number, size, call.future.name, lease, fetch=self._fetch, drop=self._dropped)
        self._in_thread(call.future.settle, remote, None)
        return remote

    def _fetch(self, remote: Remote) -> "concurrent.futures.Future[lease_wire.Frame]":
        return self._loop.begin(remote.bring())

    def _dropped(self, lease: Holder, number: int) -> None:
        """A result was forgotten; called by the garbage collector."""
        if not self._closed:
            with contextlib.suppress(RuntimeError):
                self._loop.soon(functools.partial(_drop, lease, number))

    def took(self, call: LeasedCall) -> None:
        """See `lease_pool.Surroundings`."""
        with self._space:
            full = self._waiting_bytes >= MOST_WAITING_BYTES
            self._waiting_bytes -= call.size
            if full:
                self._space.notify_all()

    def number(self) -> int:
        """See `lease_pool.Surroundings`."""
        return next(self._numbers)

    # --- requests of futures ------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether a task is an unfinished call of a lease."""
        return name in self._calls

    def cancel(self, name: str) -> None:
        """Stop a call; in the loop."""
        call = self._calls.pop(name, None)
        if call is not None:
            self.counts.cancelled += 1
            self._pool(call.options, call.options.shape).cancel(call)

    async def output(self, name: str) -> bytes:
        """What a call has printed so far."""
        call = self._calls.get(name)
        if call is None or call.lease is None:
            return b""
        return await call.lease.output(call.number)

    def leases(self) -> list[Lease]:
        """All leases of this client."""
        return [lease for pool in self._pools.values() for lease in pool.leases.values()]

    def waiting(self) -> int:
        """The number of calls that no worker has."""
        return len(self._inbox) + sum(pool.waiting for pool in self._pools.values())

    async def close(self) -> int:
        """Give back all leases; the number of calls that had not ended."""
        with self._space:
            self._closed = True
            self._space.notify_all()
        for stop in list(self._stops):
            stop.set()
        left = {call.future.name: call for call in self._calls.values()}
        for call in self._inbox:
            left[call.future.name] = call
        for pool in self._pools.values():
            await pool.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        unfinished = [call for call in left.values() if not call.future.done()]
        for call in unfinished:
            problem = RuntimeError(
                f"the client was closed before {call.future.name} had ended; wait for it, or use durable=True"
            )
            await asyncio.to_thread(call.future.settle, None, problem)
        return len(unfinished)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _close_late(connecting: "asyncio.Future[ssl.SSLSocket | None]") -> None:
    """Close a connection that was made when nothing waited for it any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connection = connecting.result()
        if connection is not None:
            connection.close()


def _drop(lease: Holder, number: int) -> None:
    lease.send(lease_wire.DROP, number)  # the worker ignores what it has no more
