"""`rota scheduler` and `rota describe`: what they do at a server, and what bad input gets."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.cli import scheduler
from rota.cli.main import main
from rota.kit import system
from rota.scheduler.sharding import instance_objects
from rota.scheduler.sharding.node_knowledge import Criterion, Synchronisation
from rota.testing.clusters import make_node, make_pod
from rota.testing.live import LiveServer
from rota.testing.servers.rota import RotaServer

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer() as server:
        yield server


def add_pod(live: LiveServer, name: str, **about: Any) -> None:
    pod = make_pod(name, **about)
    del pod["metadata"]["uid"]
    live.create("/api/v1/namespaces/default/pods", {"apiVersion": "v1", **pod})


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ("profiles: [{plugins: {score: {enabled: [{name: Unheard}]}}}]", "profiles[0].plugins.score.enabled[0].name"),
        ("podInitialBackoffSeconds: soon", "podInitialBackoffSeconds"),
        ("colour: green", "colour"),
    ],
)
def test_a_broken_configuration_stops_the_start_with_the_path_of_the_fault(
    config: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(HEAD + config)
    assert main(["scheduler", "--server", "http://127.0.0.1:1", "--scheduler-config", str(file)]) == 2
    assert fault in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--conflicts", "coarse"], ["--synchronise", "round-robin"]])
def test_choices_of_a_shard_need_a_shard(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler", "--server", "http://127.0.0.1:1", *option]) == 2
    assert "need --shard-of NAME" in capsys.readouterr().err


def test_choices_of_a_shard_are_those_of_its_instance() -> None:
    settings = scheduler._shard("default", "a", None, 100, "coarse", "freshest-first")
    assert (settings.criterion, settings.synchronisation) == (Criterion.COARSE, Synchronisation.FRESHEST_FIRST)
    assert instance_objects.instance(settings)["spec"]["synchronisation"] == "FreshestFirst"


@pytest.mark.parametrize("command", ["scheduler", "extender", "spot-controller"])
@pytest.mark.parametrize("address", ["web", "0.0.0.0:", "65536", "::1:80", "0.0.0.0:-1"])
def test_what_is_no_address_for_its_pages_is_refused(
    command: str, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--server", "http://127.0.0.1:1", "--http", address]) == 2
    assert f"{address!r} is no address; write 9464" in capsys.readouterr().err


def test_a_missing_kubeconfig_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert main(["scheduler", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"rota: there is no kubeconfig at {tmp_path / 'none'}")


@pytest.mark.slow
def test_a_node_is_described_with_what_its_pods_take(live: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    live.create("/api/v1/nodes", {"apiVersion": "v1", **make_node("sold")})
    add_pod(live, "one", cpu="1500m", on="sold")
    add_pod(live, "two", cpu="500m", on="sold")
    assert main(["describe", "node", "sold", "--server", live.url, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (cpu,) = [each for each in facts["resources"] if each["resource"] == "cpu"]
    assert cpu == {"resource": "cpu", "allocatable": "4", "requested": "2", "free": "2", "percent": 50}
    assert [(pod["name"], pod["cpu"]) for pod in facts["pods"]] == [("one", "1500m"), ("two", "500m")]
    assert main(["describe", "node", "sold", "--server", live.url]) == 0
    assert ["cpu", "4", "2", "2", "50%"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.slow
def test_a_node_that_is_not_there_is_one_line(live: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "node", "nowhere", "--server", live.url]) == 2
    assert capsys.readouterr().err == "rota: nodes \"nowhere\" not found; see 'rota get nodes'\n"


@pytest.mark.slow
def test_the_process_schedules_and_keeps_its_configuration_when_the_new_one_is_broken(
    live: LiveServer, tmp_path: Path
) -> None:
    live.create("/api/v1/nodes", {"apiVersion": "v1", **make_node("here")})
    file = tmp_path / "mine.yaml"
    file.write_text(HEAD + "profiles: [{schedulerName: mine}]")
    command = [
        str(Path(sys.executable).with_name("rota")),
        "scheduler",
        "--server",
        live.url,
        "--scheduler-config",
        str(file),
    ]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, "HOME": str(tmp_path)}
    )
    lines: list[str] = []
    assert process.stderr is not None
    reading = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
    reading.start()
    try:
        add_pod(live, "first", schedulerName="mine")
        until_bound(live, "first")
        file.write_text(HEAD + "profiles: [{schedulerName: 5}]")
        process.send_signal(signal.SIGHUP)
        until_said(lines, "the previous one stays in force")
        add_pod(live, "second", schedulerName="mine")
        until_bound(live, "second")
        file.write_text(HEAD + "profiles: [{schedulerName: other}]")
        add_pod(live, "third", schedulerName="other")
        until_bound(live, "third")
    finally:
        process.terminate()
        assert process.wait(20) == 0
        reading.join()
        process.stderr.close()


@pytest.mark.slow
def test_a_server_leaves_decisions_to_a_scheduler_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RotaServer("--scheduler", "off", "--controllers", "") as server:
        at = ("--kubeconfig", str(server.folder / "data" / "kubeconfig"))
        pod = make_pod("one")
        del pod["metadata"]["uid"]
        manifests = [{"apiVersion": "v1", **make_node("here")}, {"apiVersion": "v1", **pod}]
        (tmp_path / "all.yaml").write_text("\n---\n".join(json.dumps(one) for one in manifests))
        assert main(["submit", str(tmp_path / "all.yaml"), *at]) == 0
        assert main(["explain", "pod", "one", *at]) == 0
        assert "default/one would go to here" in capsys.readouterr().out
        with subprocess.Popen(
            [str(Path(sys.executable).with_name("rota")), "scheduler", *at], stderr=subprocess.DEVNULL
        ) as process:

            def is_bound() -> bool:
                assert main(["get", "pod", "one", "-o", "json", *at]) == 0
                return bool(json.loads(capsys.readouterr().out)["spec"].get("nodeName") == "here")

            try:
                until(is_bound)
            finally:
                process.terminate()


def until_bound(live: LiveServer, name: str) -> None:
    until(lambda: bool(live.request("GET", f"/api/v1/namespaces/default/pods/{name}")[1]["spec"].get("nodeName")))


def until_said(lines: list[str], what: str) -> None:
    until(lambda: any(what in line for line in lines))


def until(holds: Callable[[], bool]) -> None:
    clock = system.SystemClock()
    deadline = clock.monotonic() + 40
    while not holds():
        assert clock.monotonic() < deadline, "it did not come true"
        clock.block(0.05)
