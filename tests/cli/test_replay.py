"""`rota replay`: the same decisions, other ones by another configuration, recordings that were cut off."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.scheduler.recording.test_replay import MOST, Workshop

from rota.cli import main
from rota.testing.clusters import make_node, make_pod


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three pods on two nodes, spread; and one that is too large for either."""

    async def record() -> None:
        shop = Workshop(tmp_path / "a.rec", start=0)
        shop.node(make_node("n1"))
        shop.node(make_node("n2"))
        async with shop.recording():
            for number in range(3):
                shop.decide(make_pod(f"p{number}", cpu="1"))
            shop.decide(make_pod("huge", cpu="9"))

    asyncio.run(record())
    return tmp_path / "a.rec"


def rota(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main.main(["replay", *map(str, arguments)])
    return code, capsys.readouterr().out


def test_the_same_decisions_are_made_again(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rota(capsys, recording) == (0, "4 decisions, all as they were.\n")


def test_replaying_with_another_configuration_shows_the_differences(
    recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "most.yaml").write_text(MOST)
    code, out = rota(capsys, recording, "--scheduler-config", tmp_path / "most.yaml")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "4 decisions, 1 different: 1 on another node."
    assert lines[2].split() == ["TIME", "POD", "THEN", "NOW"]
    assert lines[3].split()[1:] == ["default/p1", "n2", "n1"]
    code, out = rota(capsys, recording, "--scheduler-config", tmp_path / "most.yaml", "--json")
    told = json.loads(out)
    assert (code, told["decisions"], told["cutOff"]) == (0, 4, False)
    (difference,) = told["differences"]
    assert (difference["pod"], difference["then"], difference["now"]) == ("default/p1", {"node": "n2"}, {"node": "n1"})


def test_pods_that_another_configuration_would_place_are_counted(
    recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "blind.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}}]\n"
    )
    _, out = rota(capsys, recording, "--scheduler-config", tmp_path / "blind.yaml")
    assert "1 placed that were not" in out.splitlines()[0]
    assert "no node: 0/2 nodes are available: 2 Insufficient cpu." in out


def test_different_decisions_set_the_exit_code(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.scheduler.cycle.scheduling_cycle.SchedulingCycle.choose", lambda *_, **__: "n2")
    code, out = rota(capsys, recording)
    assert code == 3
    assert out.startswith("4 decisions, 3 different: ")


def test_a_recording_that_was_cut_off_is_replayed_as_far_as_it_goes(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording.write_bytes(recording.read_bytes() + b"\0\0\1")
    code, out = rota(capsys, recording)
    assert code == 0
    assert out.splitlines() == [
        "The end of the recording is missing; this is about what is there.",
        "4 decisions, all as they were.",
    ]


def test_what_is_no_recording_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("hello")
    assert main.main(["replay", str(tmp_path / "x")]) == 2
    said = capsys.readouterr().err
    assert said == f"rota: {tmp_path}/x is no recording of a scheduler; give a file that --record wrote\n"
