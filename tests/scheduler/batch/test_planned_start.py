"""planned-start: a large group starts at its planned time, and small ones use the time until then.

The laws run groups in virtual time, pass by pass, with exact estimates.
"""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.scheduler.batch.situations import QUEUE
from tests.scheduler.batch.timelines import RUNS, START, Run, Timeline, fresh

from rota.scheduler.batch import snapshots

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: planned-start ARGUMENTS}]
- plugins: [{name: overcommit}, {name: predicates}]
"""


PLANNED = CONF.replace("ARGUMENTS", "")
PLAIN = """
actions: "enqueue, allocate"
tiers: [{plugins: [{name: gang}, {name: predicates}]}]
"""


def test_short_groups_run_before_a_planned_one_and_long_ones_do_not() -> None:
    first = Run("first", 6, 100)
    large, short, long = Run("large", 8, 50, arrives=1), Run("short", 2, 90, arrives=2), Run("long", 2, 500, arrives=2)
    timeline = Timeline(2, 4, [first, large, short, long], PLANNED)
    timeline.play()
    assert short.started == 2
    assert large.started == 100
    assert long.started == 150


def test_a_long_group_may_use_what_the_planned_one_does_not_need() -> None:
    runs = [Run("first", 6, 100), Run("large", 6, 50, arrives=1), Run("long", 2, 500, arrives=2)]
    timeline = Timeline(2, 4, runs, PLANNED)
    timeline.play()
    assert timeline.run("long").started == 2
    assert timeline.run("large").started == 100


def test_without_the_plugin_a_stream_of_small_groups_starves_a_large_one() -> None:
    def stream() -> list[Run]:
        small = [Run(f"s{number}", 1, 20, arrives=number * 5) for number in range(60)]
        return [*small, Run("large", 4, 10, arrives=7)]

    planned = Timeline(1, 4, stream(), PLANNED)
    planned.play()
    assert planned.run("large").started == 25
    plain = Timeline(1, 4, stream(), PLAIN)
    plain.play()
    assert (plain.run("large").started or 0.0) > 250


def test_the_reason_names_the_planned_start() -> None:
    timeline = Timeline(1, 4, [Run("first", 4, 100), Run("large", 3, 50, arrives=1)], PLANNED)
    timeline.play(until=1)
    assert timeline.reasons["large"].endswith("planned to start at 2026-05-01T12:01:40Z at the latest")


def test_nothing_is_planned_on_resources_whose_end_is_unknown() -> None:
    timeline = Timeline(1, 4, [Run("first", 4, 100, estimated=False), Run("large", 3, 50, arrives=1)], PLANNED)
    timeline.play(until=1)
    assert timeline.promised == {}
    known = Timeline(
        1,
        4,
        [Run("first", 4, 100, estimated=False), Run("large", 3, 50, arrives=1)],
        CONF.replace("ARGUMENTS", ", arguments: {planned-start.default-estimate: 5m}"),
    )
    known.play(until=1)
    assert known.promised == {"large": 300.0}


def test_earlier_runs_give_the_estimate() -> None:
    timeline = Timeline(1, 4, [Run("train-2", 4, 100, estimated=False), Run("large", 3, 50, arrives=1)], PLANNED)
    earlier = Run(
        "train-1", 1, 70, estimated=False, started=-70.0, nodes={"default/train-1-w-0": "n0"}, phase="Running"
    )
    state = snapshots.build(
        nodes=timeline.nodes, pods=earlier.members(), groups=[earlier.document()], queues=[QUEUE], now=START
    )
    timeline.run_times.completed(state.jobs["default/train-1"], START)
    timeline.play(until=1)
    assert timeline.promised == {"large": 70.0}


def test_a_group_that_runs_too_long_moves_the_plan() -> None:
    timeline = Timeline(1, 4, [Run("first", 4, 100), Run("large", 3, 50, arrives=1)], PLANNED)
    timeline.play(until=1)
    timeline.run("first").lasts = 500
    first = timeline.run("first").document
    timeline.run("first").document = lambda: {  # type: ignore[method-assign]
        **first(),
        "metadata": {**first()["metadata"], "annotations": {"rota.dev/running-estimate": "100s"}},
    }
    timeline.now = 200.0
    timeline.step()
    assert timeline.reasons["large"].endswith("planned to start at 2026-05-01T12:04:20Z at the latest")
    timeline.play()
    assert timeline.run("large").started == 500


@settings(max_examples=30, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink))
@given(runs=RUNS, machines=st.integers(1, 3), planned=st.integers(1, 3))
def test_no_group_starts_after_its_planned_start_and_none_starves(runs: list[Run], machines: int, planned: int) -> None:
    cores = 4
    fitting = fresh(runs, machines, cores)
    timeline = Timeline(
        machines, cores, fitting, CONF.replace("ARGUMENTS", f", arguments: {{planned-start.groups: {planned}}}")
    )
    timeline.play()
    for run in fitting:
        assert run.started is not None, f"{run.name} never started"
        if run.name in timeline.promised:
            assert run.started <= timeline.promised[run.name]
