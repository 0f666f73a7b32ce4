"""Verbs that need something to run: `rota logs`, `exec`, `top`, `drain` and completion, at a real `rota up`."""

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import ROTA, Cluster, read_until

from rota.kit import system
from rota.testing import manifests

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def task(cluster: Cluster) -> Iterator[str]:
    """A task that runs for as long as it is needed."""
    script = "echo begun; echo oops >&2; exec sleep 1000"
    made = cluster.rota("run", "--detach", "--name", "lasting", "--label", "team=a", "--", "sh", "-c", script)
    assert made.stdout == "lasting\n", made.stderr
    until(lambda: cluster.rota("logs", "lasting").stdout == "begun\noops\n")
    yield "lasting"
    cluster.rota("delete", "pod", "lasting", "--now")


def until(holds: Callable[[], bool]) -> None:
    clock = system.SystemClock()
    deadline = clock.monotonic() + 60
    while not holds():
        assert clock.monotonic() < deadline, "it did not come true"
        clock.block(0.1)


class TestLogs:
    def test_following_waits_for_the_start_and_ends_with_the_task(self, cluster: Cluster, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        script = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo one; echo two"
        cluster.rota("run", "--detach", "--name", "slow", "--", "sh", "-c", script)
        with cluster.start("logs", "-f", "slow") as following:
            assert following.stdout is not None
            gate.touch()
            assert following.stdout.read() == "one\ntwo\n"
            assert following.wait(30) == 0

    def test_a_part_of_it_can_be_asked_for(self, cluster: Cluster, task: str) -> None:
        assert cluster.rota("logs", task, "--tail", "1").stdout == "oops\n"
        assert cluster.rota("logs", "pod", task, "--tail", "1").stdout == "oops\n"
        stamped = cluster.rota("logs", f"pod/{task}", "--timestamps", "--since", "1h").stdout.splitlines()
        assert [line.split()[1] for line in stamped] == ["begun", "oops"]
        assert all(line.startswith("20") for line in stamped)

    def test_several_pods_have_their_names_in_front(self, cluster: Cluster, tmp_path: Path) -> None:
        pods = []
        for name in ("left", "right"):
            pod = manifests.pod(name, labels={"side": "any"}, restartPolicy="Never")
            pod["spec"]["containers"][0] |= {"image": "process", "command": ["echo", f"of {name}"]}
            pods.append(pod)
        (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all(pods))
        assert cluster.rota("submit", str(tmp_path / "pods.yaml")).returncode == 0
        said = cluster.rota("logs", "-f", "-l", "side=any").stdout
        assert sorted(said.splitlines()) == ["[left/main] of left", "[right/main] of right"]

    def test_a_jobs_later_pods_are_followed_until_the_job_is_done(self, cluster: Cluster, tmp_path: Path) -> None:
        job = manifests.job("twice")
        job["spec"] |= {"completions": 2, "parallelism": 1}
        job["spec"]["template"]["spec"]["containers"][0] |= {"image": "process", "command": ["echo", "done"]}
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
        assert cluster.rota("submit", str(tmp_path / "job.yaml")).returncode == 0
        said = cluster.rota("logs", "-f", "job/twice")
        assert said.returncode == 0, said.stderr
        lines = [line.split() for line in said.stdout.splitlines()]
        assert [words[1] for words in lines] == ["done", "done"]
        assert len({words[0] for words in lines}) == 2

    def test_following_ends_when_its_reader_is_gone(self, cluster: Cluster, task: str) -> None:
        with cluster.start("logs", "-f", task) as following:
            assert following.stdout is not None
            assert following.stdout.readline() == "begun\n"
            following.stdout.close()
            assert following.wait(30) == 141

    @pytest.mark.parametrize(
        ("arguments", "fault"),
        [
            (["nowhere"], 'pods "nowhere" not found'),
            (["lasting", "-c", "side"], "pod lasting has no container side; there is: main"),
            (["lasting", "--previous"], "previous terminated container"),
            (["node/worker-1"], "a Node has no pods of its own"),
            ([], "say whose"),
            (["pod", "nowhere"], 'pods "nowhere" not found'),
            (["lasting", "slow", "nowhere"], "one at a time, not 3; several with -l"),
        ],
    )
    def test_what_is_not_there_is_one_line(self, cluster: Cluster, task: str, arguments: list[str], fault: str) -> None:
        said = cluster.rota("logs", *arguments)
        assert (said.returncode, said.stdout) == (2, "")
        assert fault in said.stderr
        assert said.stderr.count("\n") == 1


class TestExec:
    def test_output_errors_and_the_exit_code_are_the_commands(self, cluster: Cluster, task: str) -> None:
        done = cluster.rota("exec", task, "--", "sh", "-c", "echo out; echo err >&2; exit 9")
        assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 9)

    def test_standard_input_is_handed_on_to_its_end(self, cluster: Cluster, task: str) -> None:
        text = "line\n" * 20_000
        command = [ROTA, "exec", "-i", task, "--", "cat"]
        done = subprocess.run(
            command, env=cluster.environment, input=text, capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.stdout, done.returncode) == (text, 0)

    def test_a_terminal_is_given_with_its_size_and_back_as_it_was(self, cluster: Cluster, task: str) -> None:
        controller, terminal = pty.openpty()
        subprocess.run(["stty", "rows", "33", "cols", "77"], stdin=terminal, check=True)
        command = [ROTA, "exec", "-t", task, "--", "sh", "-c", "tty; read x; stty size; echo got $x; exit 4"]
        with subprocess.Popen(
            command, env=cluster.environment, stdin=terminal, stdout=terminal, stderr=terminal
        ) as process:
            shown = read_until(controller, b"/dev/pts/")
            os.write(controller, b"hello\r")
            shown += read_until(controller, b"got hello")
            assert process.wait(30) == 4
        settings = subprocess.run(["stty", "-a"], stdin=terminal, capture_output=True, text=True, check=True).stdout
        os.close(terminal)
        os.close(controller)
        assert b"33 77" in shown
        assert " icanon" in settings

    @pytest.mark.parametrize(
        ("arguments", "fault"),
        [
            (["nowhere", "--", "ls"], 'pods "nowhere" not found'),
            (["lasting", "-c", "side", "--", "ls"], "container side is not valid for pod lasting"),
            (["lasting"], "missing argument"),
        ],
    )
    def test_what_cannot_be_run_is_one_line(
        self, cluster: Cluster, task: str, arguments: list[str], fault: str
    ) -> None:
        said = cluster.rota("exec", *arguments)
        assert (said.returncode, said.stdout) == (2, "")
        assert fault in said.stderr
        assert said.stderr.count("\n") == 1


def test_tables_are_painted_on_a_terminal_and_watched_in_place(cluster: Cluster, task: str) -> None:
    controller, terminal = pty.openpty()
    subprocess.run(["stty", "rows", "40", "cols", "120"], stdin=terminal, check=True)
    environment = {**cluster.environment, "TERM": "xterm-256color", "NO_COLOR": ""}
    with subprocess.Popen(
        [ROTA, "get", "pod", task, "--watch"], env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        shown = read_until(controller, b"Running")
        assert b"\x1b[32mRunning" in shown
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    os.close(terminal)
    os.close(controller)


def test_the_cluster_is_well(cluster: Cluster, task: str) -> None:
    facts = json.loads(cluster.rota("status", "--json").stdout)
    assert facts["workers"]["ready"] == 1
    assert facts["pods"]["Running"] >= 1
    assert facts["leaders"].keys() >= {"controllers", "scheduler"}
    assert all(facts["leaders"].values())


def test_what_is_used_is_shown(cluster: Cluster, task: str) -> None:
    until(lambda: task in cluster.rota("top", "pods").stdout)
    (node,) = json.loads(cluster.rota("top", "nodes", "--json").stdout)
    assert node["name"] == "worker-1"
    assert node["memory"] > 0
    assert cluster.rota("top", "nodes").stdout.split()[:5] == ["NAME", "CPU", "CPU%", "MEMORY", "MEMORY%"]
    assert task in cluster.rota("top", "pods", "--containers", "--sort-by", "memory", "-l", "team=a").stdout


def test_a_shell_is_offered_kinds_and_names(cluster: Cluster, task: str) -> None:
    def offered(typed: str) -> list[str]:
        words = {
            "_ROTA_COMPLETE": "bash_complete",
            "COMP_WORDS": f"rota {typed}",
            "COMP_CWORD": str(typed.count(" ") + 1),
        }
        done = subprocess.run([ROTA], env={**cluster.environment, **words}, capture_output=True, text=True, check=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert "priorityclasses" in offered("get prio")
    assert offered("describe node ") == ["worker-1"]
    assert task in offered("logs las")
    assert offered("drain w") == ["worker-1"]
    assert offered("get pod/las") == [f"pod/{task}"]


def test_a_drained_worker_is_empty_and_takes_work_again(cluster: Cluster) -> None:
    cluster.rota("run", "--detach", "--name", "mover", "--", "sleep", "1000")
    until(lambda: "Running" in cluster.rota("get", "pod", "mover").stdout)
    refused = cluster.rota("drain", "worker-1")
    assert refused.returncode == 2
    assert "default/mover has no controller" in refused.stderr
    done = cluster.rota("drain", "worker-1", "--force", "--grace-period", "1")
    assert "pod/mover evicted" in done.stdout
    assert done.stdout.endswith("node/worker-1 drained\n")
    assert cluster.rota("uncordon", "worker-1").stdout == "node/worker-1 uncordoned\n"
    assert cluster.rota("run", "--rm", "--", "true").returncode == 0
