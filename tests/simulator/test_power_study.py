"""CloudSim's power study: its figures by hand, the published policy, and ours."""

import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.bench import energy
from rota.kit.errors import UserError
from rota.simulator import power_study
from rota.simulator.power_study import ByForecast, Hosts


def usage(machines: int, steps: int, seed: int = 1) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(seed))
    level = rng.beta(1, 6, (machines, 1))
    return np.clip(level + rng.normal(0, 0.08, (machines, steps)), 0.0, 1.0)


def staying(made: Hosts, step: int) -> np.ndarray:
    return made.host_of


def test_energy_and_overload_by_hand() -> None:
    # A machine of 2500 MIPS goes to the second kind of host: from 93.7 to 114.2 W, against 86 to 107.4 W on the first.
    outcome = power_study.run(np.array([[0.0, 1.0]]), staying, hosts=2)
    full = 110 + (116 - 110) * (2500 / 5320 * 10 - 4)
    assert outcome.energy_kwh * 3.6e6 == pytest.approx((93.7 + full) * 300)
    assert (outcome.migrations, outcome.slatah, outcome.mean_hosts) == (0, 0.0, 1.0)


def test_a_host_that_is_asked_for_too_much_violates() -> None:
    def together(made: Hosts, step: int) -> np.ndarray:
        return np.zeros_like(made.host_of)

    # 2500 + 2000 MIPS on 3720, in the second of two steps; the other host was on for the first step at most.
    outcome = power_study.run(np.ones((2, 2)), together, hosts=2)
    assert outcome.slatah > 0


def test_the_watts_of_hosts_are_interpolated() -> None:
    made = Hosts(2, np.zeros((1, 1)))
    assert made.watts(np.array([0.0, 0.0])).tolist() == pytest.approx([86.0, 93.7])
    assert made.watts(made.capacity * 0.45).tolist() == pytest.approx([(99.5 + 102) / 2, (110 + 116) / 2])
    assert made.watts(made.capacity * 2).tolist() == pytest.approx([117.0, 135.0])


def test_a_moved_machine_loses_a_tenth_while_its_memory_is_copied() -> None:
    def hop(made: Hosts, step: int) -> np.ndarray:
        return 1 - made.host_of if step == 0 else made.host_of

    outcome = power_study.run(np.array([[0.5, 0.5]]), hop, hosts=2)
    assert outcome.migrations == 1
    # 870 MiB at 62.5 MiB/s; a tenth of the use of that time, over the use of two steps.
    assert outcome.pdm == pytest.approx(0.1 * 870 / 62.5 / 600)


def test_regression_continues_a_line() -> None:
    weights = power_study.regression_weights()
    assert weights @ np.arange(10.0) == pytest.approx(10.0)
    assert weights @ np.full(10, 3.0) == pytest.approx(3.0)


@pytest.mark.parametrize("policy", [power_study.local_regression, ByForecast()])
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000))
def test_a_policy_loses_no_machine(policy: power_study.Policy, seed: int) -> None:
    def checked(made: Hosts, step: int) -> np.ndarray:
        before = made.host_of.copy()
        target = policy(made, step)
        assert (made.host_of == before).all()
        assert ((target >= 0) & (target < len(made.capacity))).all()
        return target

    outcome = power_study.run(usage(40, 20, seed), checked, hosts=30)
    assert outcome.energy_kwh > 0


def test_both_policies_save_energy_and_ours_moves_far_less() -> None:
    recorded = usage(120, 100)
    still = power_study.run(recorded, staying, hosts=100)
    published = power_study.run(recorded, power_study.local_regression, hosts=100)
    ours = power_study.run(recorded, ByForecast(), hosts=100)
    assert published.energy_kwh < 0.6 * still.energy_kwh
    assert ours.energy_kwh < 0.6 * still.energy_kwh
    assert ours.migrations < published.migrations / 10
    assert ours.esv < published.esv


def test_the_benchmark_reads_the_recording(tmp_path: Path) -> None:
    (tmp_path / "planetlab").mkdir()
    with lzma.open(tmp_path / "planetlab" / "cpu.csv.xz", "wt") as file:
        for number, row in enumerate(usage(30, 30)):
            file.write(f"20110303,vm{number}," + ",".join(str(int(100 * each)) for each in row) + "\n")
    results = {each.name: each for each in energy.measure(quick=True, data=tmp_path)}
    assert results["day 1 (30 machines), LR-MMT: energy"].ratio == 1
    assert results["day 1 (30 machines), forecast: energy"].value > 0


def test_the_benchmark_names_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--data"):
        energy.measure()
    with pytest.raises(UserError, match=r"cpu\.csv\.xz is missing"):
        energy.measure(data=tmp_path)
