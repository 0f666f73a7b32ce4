"""A call that runs in a leased worker, and what becomes of it as a value or an exception of its future."""

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from rota.python import lease_wire, serialization, task_runner
from rota.python.failures import NoResult, TaskDied, TaskLost, TimedOut, WrongEnvironment
from rota.python.futures import Future
from rota.python.options import Options


class Carrier(Protocol):
    """The lease that has a call."""

    def send(self, kind: int, call: int = 0) -> None:
        """Send a frame to the worker."""
        ...

    async def output(self, number: int) -> bytes:
        """What a running call has printed so far."""
        ...


#: The memory that a waiting call takes beside its arguments.
_CALL_BYTES: Final = 1024
_LONGEST_DELAY_S: Final = 600.0
#: How often an idempotent call is repeated after the loss of its worker.
_MOST_LOSSES: Final = 10
#: Exit codes of calls that no retry helps.
HOPELESS: Final = frozenset({task_runner.HOPELESS, task_runner.UNSENDABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFunction:
    """A pickled function; calls with the same bytes share it."""

    name: str
    digest: bytes
    content: bytes


@dataclass(slots=True, eq=False, kw_only=True)
class LeasedCall:
    """One call."""

    number: int
    future: Future[Any]
    function: PackedFunction
    arguments: bytes
    buffers: Sequence[memoryview]
    options: Options
    #: Futures whose results are arguments, in the order of their numbers in the pickle.
    needs: Sequence[Future[Any]] = ()
    failures: int = 0
    losses: int = 0
    lease: Carrier | None = None
    #: Whether it is known to run, and since when by the loop's clock.
    started: bool = False
    started_at: float = 0.0
    estimate_s: float | None = None
    #: Numbers of the values that were sent to its worker for it.
    put: list[int] = field(default_factory=list)
    #: The memory that it takes while it waits.
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = _CALL_BYTES + len(self.arguments) + sum(len(one) for one in self.buffers)

    @property
    def retries_left(self) -> bool:
        """Whether it is tried again after a failure."""
        return self.failures < self.options.retries

    def retry_delay_s(self) -> float | None:
        """Seconds until it is tried again after a failure; None if it is not."""
        if not self.retries_left:
            return None
        self.failures += 1
        return min(self.options.retry_delay * 2.0 ** (self.failures - 1), _LONGEST_DELAY_S)

    def may_repeat(self) -> bool:
        """Whether it is repeated after the loss of its worker, when it is not known how far it came."""
        self.losses += 1
        if self.options.idempotent and self.losses <= _MOST_LOSSES:
            return True
        return self.retry_delay_s() is not None


def frame_of(value: Any) -> lease_wire.Frame:
    """A value as the frame of a result, for a worker that needs it."""
    text, buffers = serialization.pack_value(value)
    frame = lease_wire.Frame(lease_wire.RESULT, meta=lease_wire.result_meta(0.0, b"", 0, text))
    frame.buffers = [*buffers]
    return frame


def problem_of(frame: lease_wire.Frame, *, task: str, node: str) -> TaskLost:
    """Why a call was not made, or its value not sent."""
    said: Mapping[str, Any] = json.loads(bytes(lease_wire.read_result(frame.meta)[3]))
    code = said.get("code")
    kinds: dict[object, type[TaskLost]] = {
        0: NoResult,
        task_runner.HOPELESS: WrongEnvironment,
        task_runner.UNSENDABLE: NoResult,
    }
    kind = kinds.get(code, TaskDied if code is not None else TaskLost)
    exit_code = code if isinstance(code, int) else None
    return kind(f"{task}: {said.get('problem')}", task=task, node=node, exit_code=exit_code)


def death_of(said: Mapping[str, Any], *, task: str, node: str) -> TaskLost:
    """The exception for a call whose process ended while it ran."""
    code, why = int(said.get("code", 0)), said.get("why")
    if why == "timeout":
        return TimedOut(f"{task} ran for longer than its timeout on {node}", task=task, node=node)
    shown = 128 - code if code < 0 else code
    known = {one.value: one.name for one in signal.Signals}
    how = f"by {known[-code]}" if -code in known else f"with code {code}"
    tail = str(said.get("printed") or "").strip()
    more = f": {tail[-500:]}" if tail else ""
    message = f"{task} ended {how} on {node} before its function returned{more}"
    kind = NoResult if code == 0 else TaskDied
    return kind(message, task=task, node=node, exit_code=shown)


def loss_of(reason: BaseException | None, *, task: str, node: str) -> TaskLost:
    """The exception for a call whose worker was lost, from how the worker ended."""
    again = "it is not known how far it came; retries=... or idempotent=True let it be repeated"
    if isinstance(reason, TaskLost):
        return type(reason)(
            f"{task} was lost with its worker: {reason}; {again}", task=task, node=node, exit_code=reason.exit_code
        )
    on = f" on {node}" if node else ""
    return TaskDied(f"{task} was lost: the connection to its worker{on} broke; {again}", task=task, node=node)
