"""The meter of `/readyz`: what a server computes counts, and what it waits for other programs does not."""

import subprocess
import sys
import time

import pytest

from rota.testing import readiness


def test_only_processor_time_within_a_latency_is_the_servers_own() -> None:
    hogged, waited, computed_elsewhere = (0.5, 0.5), (3.0, 0.01), (0.02, 0.04)
    found = readiness.summary([waited, hogged, computed_elsewhere])
    assert (found.count, found.worst_s, found.own_worst_s) == (3, 3.0, 0.5)


@pytest.mark.parametrize(("program", "computes"), [("while True: pass", True), ("input()", False)])
def test_the_processor_time_of_another_process_is_read(program: str, computes: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", f"print(flush=True)\n{program}"], stdin=-1, stdout=-1) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            clock = readiness.processor_clock(child.pid)
            before = time.clock_gettime(clock)
            deadline = time.monotonic() + (60.0 if computes else 0.3)
            while (used := time.clock_gettime(clock) - before) < 0.2 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (used >= 0.2) == computes
        finally:
            child.kill()
