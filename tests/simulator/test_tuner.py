"""The tuner: what it searches, what it accepts, and what it proposes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.errors import UserError
from rota.scheduler.config.wire import DEFAULT_SCHEDULER_NAME
from rota.scheduler.recording.trace_lines import PodGone
from rota.scheduler.tuning import parameters, proposals
from rota.scheduler.tuning.parameters import Parameter
from rota.simulator import experiment, policies, tuner
from rota.simulator.engine import Options
from rota.simulator.experiment import Advance, InterruptedRun
from rota.simulator.models import Models
from rota.simulator.policies import Policy
from rota.simulator.results import Difference, RunResult
from rota.simulator.ties import TieRule
from rota.simulator.traces import Trace, TraceBuilder
from rota.simulator.tuner import Finding, Search

FIT = Parameter("NodeResourcesFit")
AFFINITY = Parameter("NodeAffinity")
SEARCH = Search(
    goal="energy_kwh",
    scheduler_name=DEFAULT_SCHEDULER_NAME,
    parameters=(FIT, AFFINITY),
    search_seeds=(1, 2, 3),
    confirm_seeds=(4, 5, 6),
)


def trace(pods: int = 60, nodes: int = 8) -> Trace:
    made = TraceBuilder("made")
    for number in range(nodes):
        name = f"n{number}"
        made.nodes[name] = {
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "100"}},
        }
    for number in range(pods):
        cpu, memory = 1 + number % 3, 1 + number * 7 % 8
        requests = {"cpu": str(cpu), "memory": f"{memory}Gi"}
        pod = {
            "metadata": {"name": "pod"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        }
        template = made.template((cpu, memory), pod)
        made.arrive(f"p{number}", 20.0 * number, template, duration=300.0 + number * 37 % 900, uid=f"u{number}")
    return made.build()


def weights(policy: Policy) -> tuple[float, float]:
    profile = parameters.profile_of(policy.load({}), DEFAULT_SCHEDULER_NAME)
    return parameters.value_of(profile, FIT), parameters.value_of(profile, AFFINITY)


def found(figures: Any, asked: Search = SEARCH) -> Finding:
    """The finding of a search whose runs have these figures, by the weights and the seed."""

    def run(of: Trace, policy: Policy, seed: int, advance: Advance) -> RunResult:
        return RunResult(trace=of.name, policy=policy.name, seed=seed, figures=figures(*weights(policy), seed))

    return tuner.search(trace(), policies.named(policies.DEFAULT), asked, run, arguments={})


def test_the_search_goes_to_the_better_weights_and_the_evidence_has_both() -> None:
    made = found(lambda fit, affinity, seed: {"energy_kwh": 100 - 5 * fit + seed, "attempts": 10 * fit})
    assert made.changes == {FIT: (1, 8)}
    assert made.is_confirmed
    energy, attempts = made.comparisons
    assert (energy.before, energy.after, energy.difference) == (100, 65, -35)
    assert (energy.verdict, attempts.verdict) == ("better", "")
    assert made.worse == []


def test_a_change_that_makes_another_figure_worse_is_not_taken() -> None:
    made = found(lambda fit, affinity, seed: {"energy_kwh": 100 - fit, "wait_p99_s": 5.0 * fit})
    assert not made.changes
    assert not made.is_confirmed


def test_a_difference_within_noise_is_no_reason() -> None:
    made = found(lambda fit, affinity, seed: {"energy_kwh": 100 - (fit - 1) * (1 if seed % 2 else -1)})
    assert not made.changes


def test_a_change_that_other_seeds_do_not_confirm_is_not_proposed() -> None:
    made = found(lambda fit, affinity, seed: {"energy_kwh": 100 - fit * (1 if seed < 4 else -1)})
    assert made.changes
    assert not made.is_confirmed
    assert made.worse == ["energy_kwh"]


def test_each_run_is_made_once() -> None:
    made: list[tuple[float, float, int]] = []

    def figures(fit: float, affinity: float, seed: int) -> dict[str, float]:
        made.append((fit, affinity, seed))
        return {"energy_kwh": 100 - fit}

    assert found(figures).runs == len(made) == len(set(made))


@pytest.mark.parametrize(("pods", "keep"), [(60, 1.0), (0, 0.9)])
def test_seeds_that_all_run_the_same_are_no_evidence(pods: int, keep: float) -> None:
    def run(of: Trace, policy: Policy, seed: int, advance: Advance) -> RunResult:
        figures = {"energy_kwh": 100 - 1e-9 * weights(policy)[0]}
        return RunResult(trace=of.name, policy=policy.name, seed=seed, figures=figures)

    with pytest.raises(UserError, match=f"all seeds keep the same of the {pods} pods"):
        tuner.search(trace(pods), policies.named(policies.DEFAULT), replace(SEARCH, keep=keep), run, arguments={})


def test_an_interrupt_of_a_run_ends_the_search_as_an_interrupt() -> None:
    def figures(*_: Any) -> Any:
        raise InterruptedRun(RunResult(trace="made", policy="present", seed=1, figures={}))

    with pytest.raises(KeyboardInterrupt):
        found(figures)


def test_an_unknown_goal_is_named_with_those_there_are() -> None:
    with pytest.raises(UserError, match='"beauty" is no goal'):
        found(lambda *_: {}, replace(SEARCH, goal="beauty"))


def test_a_parameter_that_the_profile_does_not_have_is_named() -> None:
    with pytest.raises(UserError, match="does not score by Nothing"):
        found(lambda *_: {}, replace(SEARCH, parameters=(Parameter("Nothing"),)))


@given(st.integers(0, 10_000), st.floats(0.05, 1.0))
def test_a_seed_keeps_a_part_of_the_pods_and_always_the_same(seed: int, keep: float) -> None:
    whole = trace(40)
    one, other = tuner.resampled(whole, seed, keep), tuner.resampled(whole, seed, keep)
    assert one.names == other.names
    assert set(one.names) <= set(whole.names)
    position = {name: at for at, name in enumerate(whole.names)}
    kept = np.array([position[name] for name in one.names], dtype=np.int64)
    for column in ("at", "duration", "template"):
        assert (getattr(one, column) == getattr(whole, column)[kept]).all()


def test_a_pod_that_a_later_line_ends_is_always_kept() -> None:
    whole = replace(trace(40), changes=[PodGone(at=10.0, uid="u7")])
    assert all("p7" in tuner.resampled(whole, seed, 0.05).names for seed in range(30))


@pytest.mark.parametrize(
    ("figure", "mean", "margin", "verdict"),
    [
        ("energy_kwh", -1.0, 0.5, "better"),
        ("energy_kwh", 1.0, 0.5, "worse"),
        ("finished", 1.0, 0.5, "better"),
        ("energy_kwh", -1.0, 1.5, "noise"),
        ("attempts", -1.0, 0.5, ""),
    ],
)
def test_verdicts(figure: str, mean: float, margin: float, verdict: str) -> None:
    difference = Difference(trace="t", figure=figure, policy="b", baseline="a", mean=mean, margin=margin, seeds=3)
    assert tuner.verdict(difference) == verdict


@given(st.integers(1, 1000) | st.floats(0.01, 100), st.sampled_from([2.0, 0.5]))
def test_a_neighbour_is_another_value_of_the_same_kind(value: float, factor: float) -> None:
    other = tuner.neighbour(value, factor)
    assert type(other) is type(value)
    assert other != value or value in (1, 1000)


def test_real_runs_find_weights_that_save_energy_and_evidence_approves_them() -> None:
    document = policies.named(policies.DEFAULT).document
    document = {**document, "profiles": [dict(document["profiles"][0])]}
    document["profiles"][0]["plugins"] = {"multiPoint": {"enabled": [{"name": "UtilizationObjective", "weight": 1}]}}
    policy = replace(policies.named(policies.DEFAULT), document=document)
    options = Options(models=Models(idle_w=100, busy_w=200, empty_is_off=True), ties=TieRule.NAME)
    asked = replace(
        SEARCH,
        parameters=(Parameter("UtilizationObjective"),),
        rounds=1,
        search_seeds=experiment.seeds(5),
        confirm_seeds=experiment.seeds(5, 47),
    )
    made = tuner.search(trace(150, 20), policy, asked, experiment.engine_runner(options), arguments={})
    assert made.changes == {Parameter("UtilizationObjective"): (1, 2)}
    proposal = made.proposal("less", DEFAULT_SCHEDULER_NAME, approve="auto")
    assert proposals.approval(proposal) == "approved by its evidence"
