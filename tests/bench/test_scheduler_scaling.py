"""Rates of several schedulers with a share of a core each: what is computed from the runs."""

import subprocess
import sys
import time

import pytest

from rota.bench import core_shares, processor
from rota.bench.scheduler_scaling import Measured, results_of


def test_the_runs_with_one_and_two_predict_the_others() -> None:
    # A pod costs 3 ms where it is served and 1 ms in every API server; 1 and 0.5 ms in schedulers.
    runs = {
        number: Measured(rate, 0.003 / number + 0.001, 0.001 / number + 0.0005)
        for number, rate in ((1, 25.0), (2, 40.0), (4, 57.0), (8, 100.0))
    }
    results = {
        one.name.partition(",")[0] + one.name[one.name.index("N=") :][:3]: one for one in results_of(runs, shared=True)
    }
    assert results["predicted pods/sN=1"].value == pytest.approx(25.0)
    assert results["predicted pods/sN=4"].value == pytest.approx(0.1 / 0.00175)
    assert results["predicted pods/sN=4"].met is True
    assert results["predicted pods/sN=8"].met is False
    assert results["pods/sN=2"].met is True
    assert results["pods/sN=4"].met is False  # 57 is less than 0.7 of 4 times 25


def test_a_single_api_server_is_not_shared() -> None:
    runs = {number: Measured(10.0, 0.01, 0.001) for number in (1, 2)}
    predicted = [one.value for one in results_of(runs, shared=False) if one.name.startswith("predicted")]
    assert predicted == [pytest.approx(10.0), pytest.approx(10.0)]


@pytest.mark.slow
def test_a_process_gets_its_share_of_a_core_and_no_more() -> None:
    with core_shares.held() as shares:
        if shares is None:
            pytest.skip("no control group can be made here")
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            shares.hold(busy.pid, 0.1)
            # A share that is not enforced lets the process use this in a fifth of a second.
            assert _until_used(busy.pid, 0.2) >= 0.2 / 0.15
            shares.release()
            _until_used(busy.pid, 1.0)
        finally:
            busy.kill()
            busy.wait()


def _until_used(pid: int, amount_s: float) -> float:
    """Wait until a process has used this much more processor time; the seconds that it took."""
    begin, before = time.monotonic(), processor.used_s(pid)
    while processor.used_s(pid) - before < amount_s:
        assert time.monotonic() < begin + 60
        time.sleep(0.02)
    return time.monotonic() - begin
