"""`rota tune` as a user meets it: what it refuses before it searches, and what it prints if there is nothing."""

import json
from pathlib import Path

import pytest

from rota.cli import main

JOBS = "job,start,seconds,cores\n" + "".join(f"j{number},{number * 10},60,1\n" for number in range(30))


@pytest.fixture
def trace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    jobs, written = tmp_path / "jobs.csv", tmp_path / "jobs.jsonl"
    jobs.write_text(JOBS)
    mapping = ("--map", "name=job,at=start,duration=seconds,cpu=cores", "--nodes", "2xcpu=8,memory=8Gi")
    assert main.main(["simulate", "--csv", str(jobs), *mapping, "--write-trace", str(written)]) == 0
    capfd.readouterr()
    return written


def test_a_file_in_a_folder_that_does_not_exist_is_refused_before_the_search(
    trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "missing" / "proposal.yaml"
    assert main.main(["tune", str(trace), "--goal", "energy_kwh", "--output", str(file)]) == 2
    said = capfd.readouterr()
    assert (said.out, f"cannot write {file}" in said.err, said.err.count("\n")) == ("", True, 1), said.err


def test_seeds_that_leave_out_nothing_are_refused(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["tune", str(trace), "--goal", "energy_kwh", "--keep", "1"]) == 2
    assert "all seeds keep the same of the 30 pods" in capfd.readouterr().err


def test_null_is_printed_if_there_is_nothing_to_propose(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["tune", str(trace), "--goal", "energy_kwh", "--parameter", "ImageLocality", "--seeds", "2", "--json"]
    assert main.main(asked) == 0
    assert json.loads(capfd.readouterr().out) is None
