"""`rota what-if`: reads a live cluster or a file, changes nothing, and prints tables or JSON."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Rota

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
