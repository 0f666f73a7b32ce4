"""Groups that run in virtual time: pass by pass, from one event to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from tests.scheduler.batch.situations import QUEUE, group, node, pod

from rota.scheduler.batch import conf, registry, snapshots
from rota.scheduler.batch.run_times import RunTimes
from rota.scheduler.batch.wait_reasons import WaitReasons

START = datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()


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

    def __init__(
        self, machines: int, cores: int, runs: list[Run], conf_text: str, *, queue: Mapping[str, Any] = QUEUE
    ) -> None:
        self.queue = queue
        self.nodes = [node(f"n{number}", cpu=str(cores)) for number in range(machines)]
        self.runs = runs
        self.configuration = conf.parse(conf_text, registry.KNOWN)
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
            queues=[self.queue],
            now=START + self.now,
        )
        state.planned, state.run_times = self.planned, self.run_times
        session = registry.run(state, self.configuration)
        reasons = WaitReasons(session)
        bound = {name: place for kind, name, place in session.sent if kind == "bind"}
        planner = session.plugins.get("planned-start")
        for key, plan in planner.report().items() if planner is not None else ():
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


#: Groups of random size; `fresh` names them.
RUNS = st.lists(
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


def fresh(runs: list[Run], machines: int, cores: int) -> list[Run]:
    """The groups that fit an empty cluster, before they have run."""
    fitting = [run for run in runs if run.pods <= machines * (cores // run.cpu)]
    for number, run in enumerate(fitting):
        run.name, run.nodes, run.phase, run.started = f"g{number}", {}, "Pending", None
    return fitting
