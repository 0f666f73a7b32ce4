"""`rota simulate` as a user meets it: faulty files, schemas of others, equal bytes, and Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import ROTA

from rota.cli import main

JOBS = "job,start,seconds,cores\na,0,60,2\nb,10,60,2\n"
MAP = "name=job,at=start,duration=seconds,cpu=cores"
NODES = ("--nodes", "2xcpu=4,memory=8Gi")


def run(*arguments: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capfd.readouterr()
    code = main.main(["simulate", *arguments])
    said = capfd.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(
    ("text", "mapping", "told"),
    [
        ("job,seconds,cores\na,60,2\n", MAP, "start"),
        (JOBS + "c,20,-5,2\n", MAP, "line 4"),
        (JOBS + "c,20,60,-2\n", MAP, "line 4"),
        (JOBS + "c,20,soon,2\n", MAP, "line 4"),
        ("job,start,stop,cores\na,50,40,2\n", "name=job,at=start,end=stop,cpu=cores", "line 2"),
    ],
    ids=["a missing column", "a negative duration", "a negative amount", "a word", "an end before its start"],
)
def test_a_faulty_row_is_named_and_nothing_is_half_done(
    text: str, mapping: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs, written = tmp_path / "jobs.csv", tmp_path / "out.jsonl"
    jobs.write_text(text)
    asked = ("--csv", str(jobs), "--map", mapping, *NODES, "--write-trace", str(written))
    code, _, err = run(*asked, capfd=capfd)
    assert (code, told in err, err.count("\n")) == (2, True, 1), err
    assert not written.exists()
    if "line" in told:
        code, _, err = run(*asked, "--lenient", capfd=capfd)
        assert code == 0, err
        assert "1 faulty rows skipped" in err
        assert written.exists()


def test_a_node_that_is_there_twice_is_refused_by_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1"}}}
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, node]}))
    code, _, err = run(str(dump), capfd=capfd)
    assert code == 2
    assert 'items[1].metadata.name: there is another node "n"' in err


def test_machines_of_azure_and_tasks_of_google_run_from_their_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    azure = tmp_path / "vmtable.csv"
    azure.write_text("vm1,s,d,0,600,90,10,50,Interactive,2,4\nvm2,s,d,300,900,90,10,50,Delay-insensitive,2,4\n")
    code, out, err = run("--azure", str(azure), *NODES, "--json", capfd=capfd)
    assert code == 0, err
    assert json.loads(out)["results"][0]["finished"] == 2.0
    folder = tmp_path / "google"
    (folder / "task_events").mkdir(parents=True)
    (folder / "machine_events").mkdir()
    (folder / "machine_events" / "part-00000-of-00001.csv").write_text("0,5,0,p,0.5,0.5\n")
    events = ["0,,1,0,,0,u,0,0,0.1,0.1,0,", "1000000,,1,0,5,1,u,0,0,0.1,0.1,0,", "61000000,,1,0,5,4,u,0,0,0.1,0.1,0,"]
    (folder / "task_events" / "part-00000-of-00001.csv").write_text("\n".join(events) + "\n")
    code, out, err = run("--google", str(folder), "--json", capfd=capfd)
    assert code == 0, err
    assert json.loads(out)["results"][0]["finished"] == 1.0


def test_equal_inputs_give_equal_bytes_in_every_form(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(JOBS)
    asked = ("--csv", str(jobs), "--map", MAP, *NODES, "--seeds", "2", "--bind-latency", "exponential:5")
    found = []
    for number in range(2):
        page, trace = tmp_path / f"{number}.html", tmp_path / f"{number}.jsonl.gz"
        _, out, _ = run(*asked, "--json", "--html", str(page), capfd=capfd)
        run(*asked, "--write-trace", str(trace), capfd=capfd)
        found.append((out, page.read_bytes(), trace.read_bytes()))
    assert found[0] == found[1]


@pytest.mark.slow
def test_ctrl_c_gives_the_report_so_far(tmp_path: Path) -> None:
    """One long run: the report is about its part that was done."""
    jobs, page = tmp_path / "jobs.csv", tmp_path / "report.html"
    rows = "".join(f"j{number},{number},100,1\n" for number in range(60_000))
    jobs.write_text(f"job,start,seconds,cores\n{rows}")
    command = [ROTA, "simulate", "--csv", str(jobs), "--map", MAP, "--nodes", "30xcpu=4", "--json", "--html", str(page)]
    terminal, side = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=side, text=True) as process:
        os.close(side)
        shown = b""
        while b"virtual time" not in shown:
            shown += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    os.close(terminal)
    report = json.loads(out)
    assert (report["interrupted"], report["partial"]) == (True, True)
    assert 0 < report["results"][0]["placed"] < 60_000
    assert "Interrupted" in page.read_text()
