"""The tuner: looks for better weights of a scheduler profile on a trace, and says how sure that is. Pure but for runs.

The search goes parameter by parameter: it doubles and halves each value, keeps the change that helps the goal most, and
goes on from there for some rounds. A change counts only outside the noise of paired seeds, and only if no other figure
gets worse outside noise. Each seed leaves out other pods of the trace, so that a change is not fitted to one order of
arrivals. The best of many tries looks better than it is; so the result is compared once more on seeds that the search
did not use, and only that comparison is the evidence.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rota.kit.errors import UserError
from rota.scheduler.config import encoder, resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.framework.registry import ProfileSpec
from rota.scheduler.recording.trace_lines import PodGone
from rota.scheduler.tuning import parameters
from rota.scheduler.tuning.parameters import NotTunableError, Parameter
from rota.simulator import arrivals, results
from rota.simulator.experiment import Advance, InterruptedRun, Progress, Runner, Watcher
from rota.simulator.policies import Policy
from rota.simulator.results import Difference, RunResult
from rota.simulator.traces import Trace

#: Figures of which more (1) or less (-1) is better; the others say nothing about quality.
DIRECTIONS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("utilisation_cpu", "utilisation_memory", "utilisation_gpu", "placed", "finished"), 1),
    **dict.fromkeys(
        (
            *("energy_kwh", "wait_p50_s", "wait_p90_s", "wait_p99_s", "wait_max_s", "failed_attempts"),
            *("preempted", "lost", "longest_queue", "nodes_added", "waiting_at_end"),
        ),
        -1,
    ),
}
_FACTOR: Final = 2.0
#: A value stays within this factor of the one at the beginning.
_FARTHEST: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched for, and with how many runs."""

    goal: str
    scheduler_name: str
    #: Parameters to change; the weights of the profile if empty.
    parameters: tuple[Parameter, ...] = ()
    #: Seeds of the search, and those of the comparison afterwards.
    search_seeds: tuple[int, ...]
    confirm_seeds: tuple[int, ...]
    rounds: int = 3
    #: The part of the trace's pods that a seed keeps.
    keep: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A figure with the present values and with the proposed ones."""

    figure: str
    before: float
    after: float
    difference: float
    low: float
    high: float
    #: better, worse or noise; empty for a figure that is neither good nor bad.
    verdict: str

    def document(self) -> dict[str, Any]:
        """As the evidence of a proposal has it."""
        names = ("before", "after", "difference", "low", "high")
        numbers = {name: getattr(self, name) for name in names}
        return {
            "figure": self.figure,
            **{name: round(value, 6) for name, value in numbers.items() if math.isfinite(value)},
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a search has found."""

    trace: str
    goal: str
    seeds: int
    runs: int
    #: Parameters with their present and their proposed values; empty if nothing was better outside noise.
    changes: Mapping[Parameter, tuple[float, float]]
    #: On the seeds that the search did not use; empty without changes.
    comparisons: tuple[Comparison, ...] = ()

    @property
    def is_confirmed(self) -> bool:
        """Whether the goal is better outside noise on other seeds, too."""
        return any(each.figure == self.goal and each.verdict == "better" for each in self.comparisons)

    @property
    def worse(self) -> list[str]:
        """Figures that get worse outside noise."""
        return [each.figure for each in self.comparisons if each.verdict == "worse"]

    def proposal(self, name: str, scheduler_name: str, **spec: Any) -> dict[str, Any]:
        """The TuningProposal."""
        changes = [
            {
                "plugin": parameter.plugin,
                **({"argument": parameter.argument} if parameter.argument else {}),
                "from": before,
                "to": after,
            }
            for parameter, (before, after) in self.changes.items()
        ]
        evidence = {
            "trace": self.trace,
            "goal": self.goal,
            "seeds": self.seeds,
            "runs": self.runs,
            "comparisons": [each.document() for each in self.comparisons],
        }
        return {
            "apiVersion": "rota.dev/v1alpha1",
            "kind": "TuningProposal",
            "metadata": {"name": name},
            "spec": {"schedulerName": scheduler_name, "changes": changes, **spec, "evidence": evidence},
        }


def resampled(trace: Trace, seed: int, keep: float) -> Trace:
    """The trace without some of its arriving pods; a pod whose end is a line of its own stays."""
    positions = np.flatnonzero(_kept(trace, seed, keep))
    return replace(
        trace,
        at=trace.at[positions],
        duration=trace.duration[positions],
        template=trace.template[positions],
        names=[trace.names[position] for position in positions.tolist()],
        uids=[trace.uids[position] for position in positions.tolist()] if trace.uids else (),
    )


def _kept(trace: Trace, seed: int, keep: float) -> npt.NDArray[np.bool_]:
    """Which of the arriving pods a seed keeps."""
    chosen = arrivals.generator(seed).random(len(trace)) < keep
    ended = {line.uid for line in trace.changes if isinstance(line, PodGone)}
    if ended and trace.uids:
        chosen |= np.array([uid in ended for uid in trace.uids])
    return chosen


def search(
    trace: Trace,
    policy: Policy,
    asked: Search,
    runner: Runner,
    *,
    arguments: Mapping[str, Any],
    watch: Watcher | None = None,
) -> Finding:
    """Look for better values, from those of a policy; `arguments` are what a simulation fills in."""
    if asked.goal not in DIRECTIONS:
        raise UserError(f'"{asked.goal}" is no goal', f"give one of {', '.join(sorted(DIRECTIONS))}")
    for first, *others in (asked.search_seeds, asked.confirm_seeds):
        kept = _kept(trace, first, asked.keep)
        if all((_kept(trace, seed, asked.keep) == kept).all() for seed in others):
            # Equal runs have no noise: any difference would seem to be certain.
            raise UserError(
                f"all seeds keep the same of the {len(trace)} pods that arrive in {trace.name}",
                "give a smaller --keep, or a trace with more arriving pods",
            )
    return _Tuner(trace, policy, asked, runner, arguments, watch).find()


class _Tuner:
    """One search; runs are kept, since every round compares with the values that it began with."""

    def __init__(
        self,
        trace: Trace,
        policy: Policy,
        asked: Search,
        runner: Runner,
        arguments: Mapping[str, Any],
        watch: Watcher | None,
    ) -> None:
        self._trace: Final = trace
        self._policy: Final = policy
        self._asked: Final = asked
        self._runner: Final = runner
        self._arguments: Final = arguments
        self._watch: Final = watch
        self._settings: Final = resolution.read(dict(policy.document))
        try:
            self._profile: Final[ProfileSpec] = parameters.profile_of(policy.load(arguments), asked.scheduler_name)
            chosen = asked.parameters or tuple(parameters.weights(self._profile))
            self._start: Final = {each: parameters.value_of(self._profile, each) for each in chosen}
        except NotTunableError as error:
            raise UserError(str(error), "name a profile and parameters of the configuration") from error
        self._made: Final[dict[tuple[tuple[float, ...], int], RunResult]] = {}

    def find(self) -> Finding:
        """Search, and compare the result on other seeds."""
        best = self._start
        for _ in range(self._asked.rounds):
            better = self._better(best)
            if better is None:
                break
            best = better
        changed = best != self._start
        return Finding(
            trace=self._trace.name,
            goal=self._asked.goal,
            seeds=len(self._asked.confirm_seeds),
            comparisons=tuple(self._compared(self._start, best, self._asked.confirm_seeds)) if changed else (),
            runs=len(self._made),
            changes={each: (self._start[each], value) for each, value in best.items() if value != self._start[each]},
        )

    def _better(self, present: dict[Parameter, float]) -> dict[Parameter, float] | None:
        """The values with the one change that helps most; None if no change helps outside noise."""
        best, most = None, 0.0
        for candidate in self._candidates(present):
            compared = {each.figure: each for each in self._compared(present, candidate, self._asked.search_seeds)}
            goal = compared.get(self._asked.goal)
            if goal is None:
                known = ", ".join(sorted(set(compared) & set(DIRECTIONS)))
                raise UserError(f"runs of this trace have no {self._asked.goal}", f"give one of {known}")
            helps = goal.verdict == "better" and all(each.verdict != "worse" for each in compared.values())
            if helps and abs(goal.difference) > most:
                best, most = candidate, abs(goal.difference)
        return best

    def _candidates(self, present: Mapping[Parameter, float]) -> Iterator[dict[Parameter, float]]:
        for parameter, value in present.items():
            start = self._start[parameter]
            for factor in (_FACTOR, 1 / _FACTOR):
                other = neighbour(value, factor)
                if other == value or not start / _FARTHEST <= other <= start * _FARTHEST:
                    continue
                candidate = {**present, parameter: other}
                try:
                    parameters.require_plugins(self._with(candidate).load(self._arguments), self._asked.scheduler_name)
                except (NotTunableError, ConfigurationError):
                    continue
                yield candidate

    def _compared(
        self, present: Mapping[Parameter, float], other: Mapping[Parameter, float], seeds: Sequence[int]
    ) -> list[Comparison]:
        runs = [
            replace(self._run(values, seed), policy=name)
            for name, values in (("present", present), ("proposed", other))
            for seed in seeds
        ]
        before, after = results.summaries(runs)
        return [
            Comparison(
                figure=each.figure,
                before=results.mean(before.values(each.figure)),
                after=results.mean(after.values(each.figure)),
                difference=each.mean,
                low=each.mean - each.margin,
                high=each.mean + each.margin,
                verdict=verdict(each),
            )
            for each in results.differences([before, after])
        ]

    def _run(self, values: Mapping[Parameter, float], seed: int) -> RunResult:
        key = tuple(values.values()), seed
        if key not in self._made:
            trace = resampled(self._trace, seed, self._asked.keep)
            try:
                self._made[key] = self._runner(trace, self._with(values), seed, self._advanced(seed))
            except InterruptedRun:
                # What half a run says is of no use here.
                raise KeyboardInterrupt from None
        return self._made[key]

    def _with(self, values: Mapping[Parameter, float]) -> Policy:
        changed = {each: value for each, value in values.items() if value != self._start[each]}
        if not changed:
            return self._policy
        settings = parameters.with_values(self._settings, self._profile, changed)
        return replace(self._policy, name="proposed", document=encoder.to_document(settings))

    def _advanced(self, seed: int) -> Advance:
        def advance(part: float, time_s: float) -> None:
            if self._watch is not None:
                done = len(self._made)
                self._watch(
                    Progress(
                        trace=self._trace.name,
                        policy=f"values {done // max(len(self._asked.search_seeds), 1) + 1}",
                        seed=seed,
                        done=done,
                        runs=self._most_runs,
                        part=part,
                        time_s=time_s,
                    )
                )

        return advance

    @property
    def _most_runs(self) -> int:
        """How many runs there are if every round finds something."""
        asked = self._asked
        tried = 1 + 2 * len(self._start) * asked.rounds
        return tried * len(asked.search_seeds) + 2 * len(asked.confirm_seeds)


def neighbour(value: float, factor: float) -> float:
    """A value times a factor; a whole one stays whole, and goes on by one at least, from 1 to 1,000."""
    if not isinstance(value, int):
        return value * factor
    other = round(value * factor)
    if other == value:
        other += 1 if factor > 1 else -1
    return min(max(other, 1), parameters.MOST_WEIGHT)


def verdict(each: Difference) -> str:
    """What a difference means for the quality of decisions."""
    direction = DIRECTIONS.get(each.figure)
    if direction is None:
        return ""
    if each.noise:
        return "noise"
    return "better" if each.mean * direction > 0 else "worse"
