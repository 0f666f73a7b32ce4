"""planned-start: a large group starts at its planned time, and small ones use the time until then.

The laws run groups in virtual time, pass by pass, with exact estimates.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.scheduler.batch.situations import group, node, pod

from rota.scheduler.batch import conf, registry, snapshots
from rota.scheduler.batch.run_times import RunTimes
from rota.scheduler.batch.wait_reasons import WaitReasons

START = datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()
QUEUE = {"metadata": {"name": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: planned-start ARGUMENTS}]
- plugins: [{name: overcommit}, {name: predicates}]
"""


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Run:
    """A group: its pods, how long it runs, when it came and when it got its nodes."""

    name: str
    pods: int
    lasts: float
    arrives: float = 0.0
    cpu: int = 1
    estimated: bool = True
    nodes: dict[str, str] = field(default_factory=dict)
    phase: str = "Pending"
    started: float | None = None

    @property
    def ends(self) -> float | None:
        return None if self.started is None else self.started + self.lasts

    def document(self) -> dict[str, Any]:
        made = group(self.name, least=self.pods, phase=self.phase, minResources={"cpu": str(self.pods * self.cpu)})
        made["metadata"]["creationTimestamp"] = stamp(START + self.arrives)
        if self.estimated:
            made["metadata"]["annotations"] = {"rota.dev/running-estimate": f"{self.lasts:g}s"}
        return made

    def members(self) -> list[dict[str, Any]]:
        found = []
        for number in range(self.pods):
            name = f"default/{self.name}-w-{number}"
            made = pod(self.name, number, {"cpu": str(self.cpu)}, on=self.nodes.get(name))
            if self.started is not None:
                at = stamp(START + self.started)
                made["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
            found.append(made)
        return found


class Timeline:
    """A cluster in virtual time."""

    def __init__(self, machines: int, cores: int, runs: list[Run], *, arguments: str = "") -> None:
        self.nodes = [node(f"n{number}", cpu=str(cores)) for number in range(machines)]
        self.runs = runs
        self.configuration = conf.parse(CONF.replace("ARGUMENTS", arguments), registry.KNOWN)
        self.planned: dict[str, float] = {}
        self.run_times = RunTimes()
        self.now = 0.0
        #: By group, the first planned start, and the last reason.
        self.promised: dict[str, float] = {}
        self.reasons: dict[str, str] = {}

    def step(self) -> None:
        """One pass, and what it binds."""
        present = [run for run in self.runs if run.arrives <= self.now and (run.ends is None or run.ends > self.now)]
        state = snapshots.build(
            nodes=self.nodes,
            pods=[each for run in present for each in run.members()],
            groups=[run.document() for run in present],
            queues=[QUEUE],
            now=START + self.now,
        )
        state.planned, state.run_times = self.planned, self.run_times
        session = registry.run(state, self.configuration)
        reasons = WaitReasons(session)
        bound = {name: place for kind, name, place in session.sent if kind == "bind"}
        for key, plan in session.plugins["planned-start"].report().items():
            self.promised.setdefault(key.removeprefix("default/"), plan["start"] - START)
        for run in present:
            job = session.jobs[f"default/{run.name}"]
            self.reasons[run.name] = reasons.of(job)
            if run.started is None and f"default/{run.name}-w-0" in bound:
                run.nodes = {name: place for name, place in bound.items() if name.startswith(f"default/{run.name}-w-")}
                run.started, run.phase = self.now, "Running"
            elif run.phase == "Pending":
                run.phase = job.phase.value or "Pending"

    def play(self, until: float = 1e6) -> None:
        """Go from event to event."""
        while True:
            self.step()
            later = [run.arrives for run in self.runs if run.arrives > self.now]
            later += [run.ends for run in self.runs if run.ends is not None and run.ends > self.now]
            if not later or min(later) > until:
                return
            self.now = min(later)

    def run(self, name: str) -> Run:
        return next(run for run in self.runs if run.name == name)


def test_short_groups_run_before_a_planned_one_and_long_ones_do_not() -> None:
    first = Run("first", 6, 100)
    large, short, long = Run("large", 8, 50, arrives=1), Run("short", 2, 90, arrives=2), Run("long", 2, 500, arrives=2)
    timeline = Timeline(2, 4, [first, large, short, long])
    timeline.play()
    assert short.started == 2
    assert large.started == 100
    assert long.started == 150


def test_a_long_group_may_use_what_the_planned_one_does_not_need() -> None:
    runs = [Run("first", 6, 100), Run("large", 6, 50, arrives=1), Run("long", 2, 500, arrives=2)]
    timeline = Timeline(2, 4, runs)
    timeline.play()
    assert timeline.run("long").started == 2
    assert timeline.run("large").started == 100


def test_without_the_plugin_a_stream_of_small_groups_starves_a_large_one() -> None:
    def stream() -> list[Run]:
        small = [Run(f"s{number}", 1, 20, arrives=number * 5) for number in range(60)]
        return [*small, Run("large", 4, 10, arrives=7)]

    planned = Timeline(1, 4, stream())
    planned.play()
    assert planned.run("large").started == 25
    plain = Timeline(1, 4, stream())
    plain.configuration = conf.parse(
        'actions: "enqueue, allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]', registry.KNOWN
    )
    plain.run("large").phase = "Inqueue"
    began = _play_plainly(plain)
    assert began > 250


def _play_plainly(timeline: Timeline) -> float:
    while timeline.run("large").started is None:
        present = [
            run
            for run in timeline.runs
            if run.arrives <= timeline.now and (run.ends is None or run.ends > timeline.now)
        ]
        state = snapshots.build(
            nodes=timeline.nodes,
            pods=[each for run in present for each in run.members()],
            groups=[run.document() for run in present],
            queues=[QUEUE],
            now=START + timeline.now,
        )
        bound = {name: at for kind, name, at in registry.run(state, timeline.configuration).sent if kind == "bind"}
        for run in present:
            mine = {name: at for name, at in bound.items() if name.startswith(f"default/{run.name}-w-")}
            if mine and run.started is None:
                run.nodes, run.started, run.phase = mine, timeline.now, "Running"
        later = [run.arrives for run in timeline.runs if run.arrives > timeline.now]
        later += [run.ends for run in timeline.runs if run.ends is not None and run.ends > timeline.now]
        timeline.now = min(later) if later else timeline.now
    return timeline.run("large").started or 0.0


def test_the_reason_names_the_planned_start() -> None:
    timeline = Timeline(1, 4, [Run("first", 4, 100), Run("large", 3, 50, arrives=1)])
    timeline.play(until=1)
    assert timeline.reasons["large"].endswith("planned to start at 2026-05-01T12:01:40Z at the latest")


def test_nothing_is_planned_on_resources_whose_end_is_unknown() -> None:
    timeline = Timeline(1, 4, [Run("first", 4, 100, estimated=False), Run("large", 3, 50, arrives=1)])
    timeline.play(until=1)
    assert timeline.promised == {}
    known = Timeline(
        1,
        4,
        [Run("first", 4, 100, estimated=False), Run("large", 3, 50, arrives=1)],
        arguments=", arguments: {planned-start.default-estimate: 5m}",
    )
    known.play(until=1)
    assert known.promised == {"large": 300.0}


def test_earlier_runs_give_the_estimate() -> None:
    timeline = Timeline(1, 4, [Run("train-2", 4, 100, estimated=False), Run("large", 3, 50, arrives=1)])
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
    timeline = Timeline(1, 4, [Run("first", 4, 100), Run("large", 3, 50, arrives=1)])
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


_runs = st.lists(
    st.builds(
        Run,
        name=st.just(""),
        pods=st.integers(1, 5),
        lasts=st.integers(1, 60).map(float),
        arrives=st.integers(0, 60).map(float),
        cpu=st.integers(1, 3),
    ),
    min_size=2,
    max_size=9,
)


@settings(max_examples=30, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink))
@given(runs=_runs, machines=st.integers(1, 3), planned=st.integers(1, 3))
def test_no_group_starts_after_its_planned_start_and_none_starves(runs: list[Run], machines: int, planned: int) -> None:
    cores = 4
    fitting = [run for run in runs if run.pods <= machines * (cores // run.cpu)]
    for number, run in enumerate(fitting):
        run.name, run.nodes, run.phase, run.started = f"g{number}", {}, "Pending", None
    timeline = Timeline(machines, cores, fitting, arguments=f", arguments: {{planned-start.groups: {planned}}}")
    timeline.play()
    for run in fitting:
        assert run.started is not None, f"{run.name} never started"
        if run.name in timeline.promised:
            assert run.started <= timeline.promised[run.name]
