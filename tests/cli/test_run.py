"""`rota run`: a command on a worker, as if it were run here."""

import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.cli.conftest import ROTA, Cluster, read_until

from rota.cli import run
from rota.cli.commands import placement_reasons, task_manifest
from rota.cli.main import main
from rota.kit import system

PLAIN: dict[str, Any] = {
    "namespace": "default", "name": "", "cpu": "", "memory": "", "gpu": None, "labels": (), "variables": (),
    "workdir": None,
}  # fmt: skip


def test_a_command_becomes_a_pod_that_runs_once() -> None:
    pod = task_manifest.manifest(("/usr/bin/My_Tool.py", "a", "$HOME"), **PLAIN)
    assert pod["metadata"]["generateName"] == "my-tool-py-"
    assert pod["spec"]["restartPolicy"] == "Never"
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["/usr/bin/My_Tool.py", "a", "$$HOME"]
    assert "workingDir" not in container
    assert container["resources"] == {"requests": {}, "limits": {}}


def test_what_it_needs_is_asked_for() -> None:
    wishes = {"cpu": "1500m", "memory": "4Gi", "gpu": 2, "labels": ("team=a",), "variables": ("X=1=2",), "name": "n"}
    pod = task_manifest.manifest(("true",), **{**PLAIN, **wishes})
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1500m", "memory": "4Gi", "nvidia.com/gpu": "2"}
    assert container["resources"]["limits"] == {"memory": "4Gi", "nvidia.com/gpu": "2"}
    assert container["env"] == [{"name": "X", "value": "1=2"}]
    assert pod["metadata"]["labels"] == {"team": "a"}
    assert pod["metadata"]["name"] == "n"


def test_a_task_at_a_terminal_gets_term_unless_it_is_set() -> None:
    def environment(**more: Any) -> Any:
        pod = task_manifest.manifest(("top",), **{**PLAIN, "stdin": True, "terminal": "xterm-256color", **more})
        return pod["spec"]["containers"][0]["env"]

    assert environment(tty=True) == [{"name": "TERM", "value": "xterm-256color"}]
    assert environment(tty=True, variables=("TERM=dumb",)) == [{"name": "TERM", "value": "dumb"}]
    assert environment(tty=True, terminal="") == []
    assert environment(tty=False) == []


@pytest.mark.parametrize("wrong", [{"cpu": "lots"}, {"labels": ("x",)}, {"variables": ("=1",)}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(click.UsageError):
        task_manifest.manifest(("true",), **{**PLAIN, **wrong})


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([("here", True, True)], "the only node there is"),
        ([("here", True, True), ("full", False, False)], "the only one of 2 nodes that takes it"),
        ([("here", True, True), ("other", True, False)], "the best of 2 nodes (score 7: Fit 7)"),
        ([("here", True, True), ("other", True, True)], "one of the 2 best of 2 nodes (score 7: Fit 7)"),
        ([("other", True, True), ("here", True, False)], "it has room (score 7: Fit 7)"),
        ([("other", True, True)], ""),
    ],
)
def test_why_a_task_is_where_it_is_in_a_few_words(nodes: list[tuple[str, bool, bool]], reason: str) -> None:
    scores = [{"plugin": "Fit", "weighted": 7}, {"plugin": "Taints", "weighted": 0}]
    told = [
        {"name": name, "feasible": feasible, "best": best, "total": 7, "scores": scores}
        for name, feasible, best in nodes
    ]
    assert placement_reasons.reason({"nodes": told}, "here") == reason
    assert placement_reasons.reason({}, "here") == ""


def test_a_misspelt_option_is_not_taken_for_the_command() -> None:
    done = subprocess.run([ROTA, "run", "--mem", "1Gi", "--", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such option '--mem'" in done.stderr


def test_options_after_the_command_are_its_own() -> None:
    with run.command.make_context("run", ["--cpu", "2", "ls", "-la", "--cpu", "--", "/"]) as ctx:
        assert ctx.params["cpu"] == "2"
        assert ctx.params["command_line"] == ("ls", "-la", "--cpu", "--", "/")
    with run.command.make_context("run", ["--cpu", "2", "--", "ls", "-la"]) as ctx:
        assert ctx.params["command_line"] == ("ls", "-la")


def rota_run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cluster.rota("run", *arguments)


@pytest.mark.slow
def test_it_shows_what_the_command_says_and_exits_with_its_code(cluster: Cluster) -> None:
    done = rota_run(cluster, "--", "sh", "-c", "echo hi; exit 7")
    assert (done.stdout, done.returncode) == ("hi\n", 7)
    assert "runs on worker-1" in done.stderr


@pytest.mark.slow
def test_a_command_that_is_not_there_is_said_in_one_line(cluster: Cluster) -> None:
    done = rota_run(cluster, "--", "no-such-program")
    assert done.returncode == run.NOT_STARTED
    assert 'exec: "no-such-program": no such file or directory' in done.stderr


@pytest.mark.slow
def test_what_is_detached_goes_on_by_itself(cluster: Cluster, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    done = rota_run(cluster, "--detach", "--name", "alone", "--", "sh", "-c", f"sleep 0.5; echo x > {mark}")
    assert done.stdout == "alone\n"
    late = rota_run(cluster, "--wait", "--", "sh", "-c", f"while [ ! -s {mark} ]; do sleep 0.05; done; cat {mark}")
    assert (late.stdout, late.returncode) == ("x\n", 0)


@pytest.mark.slow
def test_more_than_any_node_has_is_said_with_a_way_out_and_ctrl_c_takes_it_back(cluster: Cluster) -> None:
    with cluster.start("run", "--cpu", "999", "--name", "huge", "--", "true") as process:
        assert process.stderr is not None
        assert "huge waits: 0/1 nodes are available" in process.stderr.readline()
        assert "it requests 999 cpu" in process.stderr.readline()
        assert "rota explain pod huge tells more" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    again = rota_run(cluster, "--name", "huge", "--", "true")
    assert again.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "option"), [(signal.SIGINT, "--rm"), (signal.SIGTERM, "--wait"), (signal.SIGHUP, "--rm")]
)
def test_a_signal_ends_the_task_and_its_last_words_are_shown(
    cluster: Cluster, number: signal.Signals, option: str
) -> None:
    name = f"ends-{number}-{option.strip('-')}"
    script = "trap 'echo bye; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    with cluster.start("run", option, "--name", name, "--", "sh", "-c", script) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert f"{name} runs on worker-1" in process.stderr.readline()
        if option == "--rm":
            assert process.stdout.readline() == "started\n"
        else:
            until(lambda: "started" in cluster.rota("logs", name).stdout)
        process.send_signal(number)
        # twice in a row, as whoever ends a whole group of processes may do
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert process.stdout.read().endswith("bye\n")
    assert cluster.rota("get", "pod", name).returncode == 2


@pytest.mark.slow
def test_what_is_removed_leaves_nothing_and_what_is_not_can_be_looked_at(cluster: Cluster) -> None:
    assert rota_run(cluster, "--rm", "--name", "fleeting", "--", "true").returncode == 0
    until(lambda: cluster.rota("get", "pod", "fleeting").returncode == 2)
    assert rota_run(cluster, "--name", "kept", "--", "echo", "x").returncode == 0
    assert cluster.rota("logs", "kept").stdout == "x\n"


@pytest.mark.slow
def test_a_deleted_task_exits_with_its_signal(cluster: Cluster) -> None:
    with cluster.start("run", "--name", "victim", "--", "sleep", "1000") as process:
        assert process.stderr is not None
        process.stderr.readline()
        cluster.rota("delete", "pod", "victim", "--now")
        assert process.wait(60) == 128 + signal.SIGTERM
        assert "victim is gone: it was deleted" in process.stderr.read()


@pytest.mark.slow
def test_standard_input_is_handed_on_to_its_end_and_no_word_is_lost(cluster: Cluster) -> None:
    text = "line\n" * 20_000
    command = [ROTA, "run", "--rm", "-i", "--", "sh", "-c", "echo first; cat; echo last; exit 5"]
    done = subprocess.run(
        command, env=cluster.environment, input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.returncode) == (f"first\n{text}last\n", 5)


@pytest.mark.slow
def test_missing_exec_rights_are_reported(cluster: Cluster, tmp_path: Path) -> None:
    api = "rbac.authorization.k8s.io"
    pods = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["create", "get", "list", "watch", "delete"]}
    role = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": "mute"}, "rules": [pods]}
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "mute"},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": "mute"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": "mute"}],
    }
    (tmp_path / "rights.yaml").write_text(yaml.safe_dump_all([role, binding]))
    assert cluster.rota("submit", str(tmp_path / "rights.yaml")).returncode == 0
    content = yaml.safe_load(Path(cluster.environment["KUBECONFIG"]).read_text())
    content["users"][0]["user"]["as"] = "mute"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
    done = cluster.rota("run", "--rm", "-i", "--kubeconfig", str(tmp_path / "kubeconfig"), "--", "sleep", "1")
    assert done.returncode == 0, done.stderr
    assert "what is read here does not reach the task" in done.stderr


@pytest.mark.slow
def test_a_task_can_be_run_at_this_terminal(cluster: Cluster) -> None:
    controller, terminal = pty.openpty()
    command = [ROTA, "run", "--rm", "-it", "--", "sh", "-c", "read -p 'who? ' x; tty; echo hello $x; exit 4"]
    with subprocess.Popen(
        command, env=cluster.environment, stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        read_until(controller, b"who? ")
        os.write(controller, b"world\r")
        shown = read_until(controller, b"hello world")
        assert process.wait(60) == 4
    os.close(terminal)
    os.close(controller)
    assert b"/dev/pts/" in shown


@pytest.mark.slow
def test_a_task_that_is_over_before_anybody_can_talk_to_it_is_shown_all_the_same(cluster: Cluster) -> None:
    done = cluster.rota("run", "--rm", "-i", "--", "echo", "quick")
    assert (done.stdout, done.returncode) == ("quick\n", 0)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["-i", "--detach"], "--detach and --stdin contradict each other"),
        (["-t", "--wait"], "--wait and --tty contradict each other"),
        (["--detach", "--wait"], "--detach and --wait contradict each other"),
        (["--detach", "--rm"], "--detach and --rm contradict each other"),
        (["--gpu", "0"], "0 is not in the range x>=1"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *options, "--", "true"]) == 2
    assert fault in capsys.readouterr().err


def until(holds: Callable[[], bool]) -> None:
    clock = system.SystemClock()
    deadline = clock.monotonic() + 40
    while not holds():
        assert clock.monotonic() < deadline, "it did not come true"
        clock.block(0.05)
