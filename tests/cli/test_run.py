"""`rota run`: a command on a worker, as if it were run here."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from rota.cli import run
from rota.cli.acts import tasks

ROTA = str(Path(sys.executable).with_name("rota"))
PLAIN: dict[str, Any] = {
    "namespace": "default", "name": "", "cpu": "", "memory": "", "gpu": None, "labels": (), "variables": (),
    "workdir": None,
}  # fmt: skip


def test_a_command_becomes_a_pod_that_runs_once() -> None:
    pod = tasks.manifest(("/usr/bin/My_Tool.py", "a", "$HOME"), **PLAIN)
    assert pod["metadata"]["generateName"] == "my-tool-py-"
    assert pod["spec"]["restartPolicy"] == "Never"
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["/usr/bin/My_Tool.py", "a", "$$HOME"]
    assert container["workingDir"] == str(Path.cwd())
    assert container["resources"] == {"requests": {}, "limits": {}}


def test_what_it_needs_is_asked_for() -> None:
    wishes = {"cpu": "1500m", "memory": "4Gi", "gpu": 2, "labels": ("team=a",), "variables": ("X=1=2",), "name": "n"}
    pod = tasks.manifest(("true",), **{**PLAIN, **wishes})
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1500m", "memory": "4Gi", "nvidia.com/gpu": "2"}
    assert container["resources"]["limits"] == {"memory": "4Gi", "nvidia.com/gpu": "2"}
    assert container["env"] == [{"name": "X", "value": "1=2"}]
    assert pod["metadata"]["labels"] == {"team": "a"}
    assert pod["metadata"]["name"] == "n"


@pytest.mark.parametrize("wrong", [{"cpu": "lots"}, {"labels": ("x",)}, {"variables": ("=1",)}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(click.UsageError):
        tasks.manifest(("true",), **{**PLAIN, **wrong})


def test_a_misspelt_option_is_not_taken_for_the_command() -> None:
    done = subprocess.run([ROTA, "run", "--mem", "1Gi", "--", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such option '--mem'" in done.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cluster")
    command = [ROTA, "up", "--workers", "1", "--data", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Rota is up" in line for line in iter(process.stdout.readline, ""))
        yield folder
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def rota_run(cluster: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    config = str(cluster / "kubeconfig")
    return subprocess.run(
        [ROTA, "run", "--kubeconfig", config, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.slow
def test_it_shows_what_the_command_says_and_exits_with_its_code(cluster: Path) -> None:
    done = rota_run(cluster, "--", "sh", "-c", "echo hi; exit 7")
    assert (done.stdout, done.returncode) == ("hi\n", 7)
    assert "runs on worker-1" in done.stderr


@pytest.mark.slow
def test_a_command_that_is_not_there_is_said_in_one_line(cluster: Path) -> None:
    done = rota_run(cluster, "--", "no-such-program")
    assert done.returncode == run.NOT_STARTED
    assert 'exec: "no-such-program": no such file or directory' in done.stderr


@pytest.mark.slow
def test_what_is_detached_goes_on_by_itself(cluster: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    done = rota_run(cluster, "--detach", "--name", "alone", "--", "sh", "-c", f"sleep 0.5; echo x > {mark}")
    assert done.stdout == "alone\n"
    late = rota_run(cluster, "--wait", "--", "sh", "-c", f"while [ ! -s {mark} ]; do sleep 0.05; done; cat {mark}")
    assert (late.stdout, late.returncode) == ("x\n", 0)


@pytest.mark.slow
def test_more_than_any_node_has_is_said_and_ctrl_c_takes_it_back(cluster: Path) -> None:
    config = str(cluster / "kubeconfig")
    command = [ROTA, "run", "--kubeconfig", config, "--cpu", "1000", "--name", "huge", "--", "true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "huge waits: 0/1 nodes are available" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    again = rota_run(cluster, "--name", "huge", "--", "true")
    assert again.returncode == 0
