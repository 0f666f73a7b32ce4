"""Which batch pods go, and when."""

from hypothesis import given
from hypothesis import strategies as st

from rota.worker.colocation import bursts
from rota.worker.colocation.bursts import BurstSettings
from rota.worker.colocation.evictions import BatchPod, Condition, Evictions, EvictionSettings

GIBIBYTE = 1024**3
SETTINGS = EvictionSettings()


def pod(uid: str, *, memory: int = GIBIBYTE, priority: int = 0, begun_s: float = 0.0) -> BatchPod:
    return BatchPod(uid=uid, priority=priority, begun_s=begun_s, cpu_milli=1000, memory_bytes=memory)


def condition(available: int, *, stalled: float = 0.0, quota: float = 4000.0) -> Condition:
    return Condition(memory_total=64 * GIBIBYTE, memory_available=available, stalled=stalled, quota_milli=quota)


def uids(chosen: list[tuple[BatchPod, str]]) -> list[str]:
    return [one.uid for one, _ in chosen]


def test_enough_pods_go_before_memory_ends_and_no_more() -> None:
    made = Evictions(SETTINGS)
    pods = [pod("important", priority=5, memory=9 * GIBIBYTE), pod("small"), pod("large", memory=2 * GIBIBYTE)]
    assert made.step(pods, condition(10 * GIBIBYTE), 0.0) == []
    chosen = made.step(pods, condition(3 * GIBIBYTE), 1.0)
    assert uids(chosen) == ["large", "small"], "two and one gibibytes, until 8 % would be free"
    assert "3072Mi" in chosen[0][1]
    assert made.step(pods[:1], condition(3 * GIBIBYTE), 5.0) == [], "the memory of the last one may not be free yet"
    assert uids(made.step(pods[:1], condition(3 * GIBIBYTE), 11.0)) == ["important"]


def test_the_youngest_of_equal_pods_goes() -> None:
    pods = [pod("old", begun_s=1.0), pod("young", begun_s=2.0)]
    assert uids(Evictions(SETTINGS).step(pods, condition(3 * GIBIBYTE * 3 // 2, stalled=0.5), 0.0)) == ["young"]


def test_stalls_for_memory_evict_although_memory_seems_available() -> None:
    chosen = Evictions(SETTINGS).step([pod("a"), pod("b")], condition(30 * GIBIBYTE, stalled=0.25), 0.0)
    assert uids(chosen) == ["a"]
    assert "stall for memory 25%" in chosen[0][1]


def test_pods_that_starve_go_one_by_one_after_a_while() -> None:
    made = Evictions(SETTINGS)
    pods = [pod("a"), pod("b", begun_s=5.0)]
    plenty = 30 * GIBIBYTE
    for second in range(299):
        assert made.step(pods, condition(plenty, quota=100.0), float(second)) == []
    assert made.step(pods, condition(plenty, quota=500.0), 299.0) == [], "an interruption begins the time anew"
    for second in range(300, 600):
        assert made.step(pods, condition(plenty, quota=100.0), float(second)) == []
    assert uids(made.step(pods, condition(plenty, quota=100.0), 600.0)) == ["b"]
    assert made.step(pods[:1], condition(plenty, quota=100.0), 650.0) == []


@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 8 * GIBIBYTE)), max_size=8),
    st.lists(
        st.tuples(st.integers(0, 64 * GIBIBYTE), st.floats(0, 1), st.floats(0, 4000), st.floats(0, 20)), max_size=20
    ),
)
def test_evictions_are_of_given_pods_once_per_step_and_paced(
    pods: list[tuple[int, int]], trace: list[tuple[int, float, float, float]]
) -> None:
    made, now_s, last_s = Evictions(SETTINGS), 0.0, float("-inf")
    present = [pod(str(number), priority=one, memory=memory) for number, (one, memory) in enumerate(pods)]
    for available, stalled, quota, elapsed_s in trace:
        now_s += elapsed_s
        chosen = uids(made.step(present, condition(available, stalled=stalled, quota=quota), now_s))
        assert len(set(chosen)) == len(chosen)
        assert set(chosen) <= {one.uid for one in present}
        if chosen:
            assert now_s - last_s >= SETTINGS.pause_s
            last_s = now_s
            kept = [one.priority for one in present if one.uid not in chosen]
            gone = [one.priority for one in present if one.uid in chosen]
            assert not kept or max(gone) <= min(kept), "low priority first"
            present = [one for one in present if one.uid not in chosen]


@given(st.floats(10, 8000), st.lists(st.tuples(st.booleans(), st.floats(0, 1.5)), min_size=1, max_size=60))
def test_a_burst_stays_between_the_limit_and_three_times_the_limit(
    limit: float, trace: list[tuple[bool, float]]
) -> None:
    settings, present = BurstSettings(), limit
    for throttled, load in trace:
        after = bursts.quota(limit, present, throttled=throttled, load=load, settings=settings)
        assert limit <= after <= 3 * limit
        if load >= settings.overload or not throttled:
            assert after <= present
        present = after
    for _ in range(6):
        present = bursts.quota(limit, present, throttled=False, load=0.0, settings=settings)
    assert present == limit, "without throttling it returns to the limit"


def test_bursts_have_koordinators_factors() -> None:
    settings = BurstSettings()
    assert bursts.quota(1000, 1000, throttled=True, load=0.2, settings=settings) == 1200
    assert bursts.quota(1000, 1200, throttled=True, load=0.47, settings=settings) == 1200
    assert bursts.quota(1000, 2000, throttled=True, load=0.6, settings=settings) == 1600
    assert bursts.quota(1000, 2900, throttled=True, load=0.0, settings=settings) == 3000
