"""The guard that interrupts plugins: what it interrupts, and what it leaves alone."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.scheduler.cycle import watchdog
from rota.scheduler.cycle.watchdog import Overrun, Watchdog
from rota.testing.clocks import FakeClock
from rota.testing.clusters import build, make_node, make_pod


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def guard(clock: FakeClock) -> Iterator[Watchdog]:
    """A guard whose own thread sleeps: signals come from the tests."""
    made = Watchdog(clock=clock, limit_s=1000)
    made.start()
    yield made
    made.stop()


def interrupt() -> None:
    signal.raise_signal(signal.SIGVTALRM)


def test_a_plugin_is_interrupted_after_the_limit_and_not_before(guard: Watchdog, clock: FakeClock) -> None:
    with guard:
        interrupt()
        clock.oversleep(1001)
        with pytest.raises(Overrun):
            interrupt()
    interrupt()


def test_what_takes_a_trial_back_is_not_interrupted(
    guard: Watchdog, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    interner = PodInterner()
    cluster = build([make_node("a")], [make_pod("there", on="a")], interner)
    start_attempt = Cluster._start_attempt
    signals = 0

    def interrupted(self: Cluster, uid: str) -> object:
        nonlocal signals
        signals += 1
        clock.oversleep(1001)
        interrupt()
        return start_attempt(self, uid)

    # As columns are: code of that room.
    monkeypatch.setitem(interrupted.__globals__, "__name__", "rota.columns.cluster")
    with guard, cluster.what_if():
        cluster.add_pod(interner.pod(make_pod("guest", on="a")))
        monkeypatch.setattr(Cluster, "_start_attempt", interrupted)
    assert signals == 1
    assert list(cluster.pods) == ["uid-there"]
    assert list(cluster.by_name["a"].pods) == ["uid-there"]


def test_the_guard_itself_is_not_interrupted(clock: FakeClock) -> None:
    made = Watchdog(clock=clock, limit_s=1000)
    made.start()
    try:
        frame: FrameType | None = None

        def see(number: int, found: FrameType | None) -> None:
            nonlocal frame
            frame = found

        signal.signal(signal.SIGVTALRM, see)
        code = compile("import signal; signal.raise_signal(signal.SIGVTALRM)", "guard", "exec")
        exec(code, {"__name__": "rota.scheduler.cycle.watchdog"})
        made._began = 0.0
        clock.oversleep(1001)
        made._interrupt(signal.SIGVTALRM, frame)
        assert not made.overruns
    finally:
        made.stop()


@pytest.mark.parametrize(("deadline_s", "limit_s"), [(None, 5.0), (10.0, 5.0), (25.0, 5.0), (1.8, 0.9)])
def test_the_limit_leaves_time_to_renew_the_lease(deadline_s: float | None, limit_s: float) -> None:
    assert watchdog.limit_s(deadline_s) == limit_s
