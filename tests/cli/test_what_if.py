"""`rota what-if`: reads a live cluster or a file, changes nothing, and prints tables or JSON."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import ROTA, Rota

from rota.cli import main
from rota.testing import manifests
from rota.testing.live import LiveServer

PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {disabled: [{name: "*"}], enabled: [{name: Last}]}}
"""
PLUGIN = """
import msgspec


class Last:
    name = "Last"
    Args = msgspec.defstruct("Args", [])

    def __init__(self, args, handle):
        pass

    def score(self, state, pod, node):
        return ord(node.name[0]) - ord("a")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """A server of this module's own: an answer is about all nodes there are."""
    with LiveServer() as live:
        for name in ("a", "b"):
            live.create("/api/v1/nodes", manifests.node(name, pool="small"))
        yield live


def test_an_answer_about_a_live_cluster_changes_nothing_there(rota: Rota, server: LiveServer, tmp_path: Path) -> None:
    (tmp_path / "web.json").write_text(json.dumps(manifests.deployment("web", replicas=3)))
    before = server.request("GET", "/api/v1/pods")[1]["metadata"]["resourceVersion"]
    asked = (
        "what-if",
        "-f",
        str(tmp_path / "web.json"),
        "--shape",
        "cpu=2",
        "--drain",
        "a",
        "--scale-pool",
        "pool=small:2",
    )
    told = json.loads(rota(*asked, "--json").out)
    assert told["fits"] is True
    assert {each["pod"] for each in told["placed"]} == {f"default/web-{number}" for number in range(3)}
    assert "a" not in {each["to"] for each in told["placed"]}
    assert (told["nodes"], told["count"]["number"]) == (3, 6)
    shown = rota(*asked)
    assert ["default/web-0", "fits"] in [words[:2] for words in shown.cells]
    assert "6 more of cpu=2 would fit." in shown.out
    assert server.request("GET", "/api/v1/pods")[1]["metadata"]["resourceVersion"] == before


def test_a_plugin_and_a_configuration_decide(rota: Rota, tmp_path: Path) -> None:
    for name, text in (("config.yaml", PACKING), ("last.py", PLUGIN), ("pod.json", json.dumps(manifests.pod("p")))):
        (tmp_path / name).write_text(text)
    pod, config, plugin = (str(tmp_path / name) for name in ("pod.json", "config.yaml", "last.py"))
    stock = json.loads(rota("what-if", "-f", pod, "--json").out)
    own = json.loads(rota("what-if", "-f", pod, "--json", "--scheduler-config", config, "--plugin", plugin).out)
    assert [found["placed"][0]["to"] for found in (stock, own)] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--shape", "cpu=1", "--count-of", __file__], 2, "either --shape or --count-of"),
        ([__file__, "--server", "http://127.0.0.1:1"], 2, "either a CLUSTER file or a server"),
        (["-f", "-", "--count-of", "-"], 2, "only one file can be standard input"),
        (["--scale-pool", "pool"], 2, "write LABEL=VALUE:TIMES"),
        (["--scale-pool", "pool=large:2"], 2, "no node of"),
        (["--drain", "c"], 2, 'no node "c"'),
        (["--add-nodes", "many"], 2, "write 100xcpu=32,memory=128Gi"),
    ],
)
def test_what_cannot_be_answered_is_refused(rota: Rota, arguments: list[str], code: int, complaint: str) -> None:
    said = rota("what-if", *arguments)
    assert (said.code, complaint in said.err) == (code, True), said.err


def test_the_configuration_of_a_dump_is_the_one_in_force(
    rota: Rota, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = PACKING.replace("[{name: Last}]", "[{name: NodeResourcesFit}]") + (
        "  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n"
        "      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}\n"
    )
    (tmp_path / "config.yaml").write_text(config)
    small = manifests.pod("p")
    small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    (tmp_path / "pods.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [small, {**small, "metadata": {"name": "q"}}]})
    )
    dump = str(tmp_path / "now.jsonl.gz")
    assert rota("dump", dump, "--scheduler-config", str(tmp_path / "config.yaml")).code == 0
    capfd.readouterr()
    assert main.main(["what-if", dump, "-f", str(tmp_path / "pods.json"), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [each["to"] for each in told["placed"]] == ["a", "a"]


@pytest.mark.kubectl
@pytest.mark.slow
def test_kubectl_asks_a_running_cluster_by_an_object_that_is_not_stored(tmp_path: Path) -> None:
    """The same answer as `rota what-if`, for users with the role, from a master that stays as it is."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    question = {
        "apiVersion": "rota.dev/v1alpha1",
        "kind": "WhatIf",
        "spec": {"drain": ["a"], "count": {"requests": {"cpu": "2"}}},
    }
    up = [ROTA, "up", "--workers", "0", "--http", "0", "--controllers", "*,-node-lifecycle", "--data", str(tmp_path)]
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = next(
                line.split()[1] for line in iter(process.stdout.readline, "") if line.strip().startswith("http ")
            )

            def say(*command: str, given: Any = None) -> subprocess.CompletedProcess[str]:
                return subprocess.run(
                    [kubectl, "-s", url, "--cache-dir", str(tmp_path / "cache"), *command],
                    input=json.dumps(given),
                    check=False,
                    capture_output=True,
                    text=True,
                    timeout=90,
                )

            nodes = [manifests.node(name, pool="small") for name in ("a", "b")]
            container = {"name": "c", "image": "process", "resources": {"requests": {"cpu": "100"}}}
            items = [*nodes, manifests.pod("waits", containers=[container])]
            created = say("create", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": items})
            assert created.returncode == 0, created.stderr
            answered = say("create", "-f", "-", "-o", "json", given=question)
            assert answered.returncode == 0, answered.stderr
            status = json.loads(answered.stdout)["status"]
            by_command = subprocess.run(
                [ROTA, "what-if", "--server", url, "--drain", "a", "--shape", "cpu=2", "--json"],
                check=True, capture_output=True, text=True, timeout=90,
            )  # fmt: skip
            told = json.loads(by_command.stdout)
            assert status["count"]["number"] == told["count"]["number"] > 0
            assert (status["nodes"], status["waits"][0]["pod"]) == (1, "default/waits")
            assert status["waits"][0]["why"] == told["waits"][0]["why"]
            assert "MethodNotAllowed" in say("get", "whatifs").stderr
            asked_by_bob = ("create", "-f", "-", "--as", "bob")
            assert "Forbidden" in say(*asked_by_bob, given=question).stderr
            say("create", "clusterrolebinding", "asks", "--clusterrole", "rota:what-if", "--user", "bob")
            assert say(*asked_by_bob, given=question).returncode == 0
            refused = say("create", "-f", "-", given={**question, "spec": {"drain": ["c"]}})
            assert 'there is no node "c" to drain' in refused.stderr
        finally:
            process.terminate()
