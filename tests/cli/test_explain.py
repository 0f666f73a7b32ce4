"""`rota explain` against a live server: pods that wait, pods that run, manifests, one node, other configurations."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.cli import main
from rota.testing import manifests
from rota.testing.live import LiveServer

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    """A cluster of three nodes: one tainted, two nearly full."""
    with LiveServer() as server:
        for name in ("n1", "n2"):
            server.create("/api/v1/nodes", manifests.node(name))
            server.create(PODS, _pod(f"busy-{name}", cpu="3", nodeName=name))
        tainted = manifests.node("gpu1")
        tainted["spec"] = {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}
        server.create("/api/v1/nodes", tainted)
        server.create(PODS, _pod("big", cpu="2"))
        server.create(PODS, _pod("small", cpu="500m"))
        yield server


def _pod(name: str, *, cpu: str, **spec: Any) -> dict[str, Any]:
    document = manifests.pod(name, **spec)
    document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "128Mi"}}
    return document


def rota(live: LiveServer, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main.main(["explain", *arguments, "--server", live.url])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_pending_pod_is_explained_with_what_would_have_to_change(
    live: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = rota(live, capsys, "pod", "big")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == (
        "default/big has no node: 0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu"
    )
    assert lines[2:5] == [
        "What would have to change",
        "  needs 1 more cpu on any of 2 nodes",
        "  1 node excluded by taint dedicated=gpu:NoSchedule",
    ]
    table = [line.split(maxsplit=2) for line in lines if line.startswith(("n1", "n2", "gpu1"))]
    assert [row[:2] for row in table] == [["gpu1", "refused"], ["n1", "refused"], ["n2", "refused"]]
    assert "TaintToleration: node(s) had untolerated taint(s)" in table[0][2]
    assert "no pod of lower priority there" in table[1][2]
    assert "\x1b" not in out


def test_json_has_everything(live: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = rota(live, capsys, "pod/small", "-o", "json")
    told = json.loads(out)
    assert code == 0
    assert (told["kind"], told["outcome"]) == ("Explanation", "Schedulable")
    assert told["node"] in {"n1", "n2"}
    scores = {score["plugin"]: score for score in told["nodes"][0]["scores"]}
    assert scores["NodeResourcesFit"]["weighted"] == scores["NodeResourcesFit"]["score"]
    assert scores["TaintToleration"] == {"plugin": "TaintToleration", "score": 100, "weight": 3, "weighted": 300}


def test_one_node_is_looked_at_alone(live: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = rota(live, capsys, "pod", "small", "--node", "gpu1")
    assert code == 0
    assert "1 node excluded by taint dedicated=gpu:NoSchedule" in out
    assert "n1 " not in out.partition("WHY")[2]
    code, _, err = rota(live, capsys, "pod", "small", "--node", "n9")
    assert (code, err) == (2, "rota: the cluster has no node n9; see kubectl get nodes\n")


def test_a_running_pod_is_explained_with_its_node_of_today(
    live: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = rota(live, capsys, "pod", "busy-n1")
    assert code == 0
    assert out.startswith("default/busy-n1 (on n1) would go to n1 with a score of ")


def test_a_manifest_is_explained_without_being_submitted(
    live: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tolerant = _pod("new", cpu="2", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(tolerant))
    code, out, _ = rota(live, capsys, "-f", str(tmp_path / "new.yaml"))
    assert code == 0
    assert out.startswith("default/new would go to gpu1 with a score of ")
    assert live.request("GET", f"{PODS}/new")[0] == 404


def test_another_configuration_can_be_asked_about(
    live: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}}],
    }
    (tmp_path / "lenient.yaml").write_text(yaml.safe_dump(config))
    code, out, _ = rota(live, capsys, "pod", "big", "--scheduler-config", str(tmp_path / "lenient.yaml"))
    assert code == 0
    assert out.startswith("default/big would go to gpu1 with a score of ")


def test_extenders_of_a_configuration_are_asked_too(
    live: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    names = [node['metadata']['name'] for node in asked['body']['Nodes']['items']]\n"
        "    body = {'Nodes': {'items': []}, 'FailedNodes': dict.fromkeys(names, 'not on a Monday')}\n"
        "    print(json.dumps({'id': asked['id'], 'body': body}), flush=True)\n"
    )
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"command": [sys.executable, "-S", "-c", script], "filterVerb": "filter"}],
    }
    (tmp_path / "monday.yaml").write_text(yaml.safe_dump(config))
    code, out, _ = rota(live, capsys, "pod", "small", "--scheduler-config", str(tmp_path / "monday.yaml"))
    assert code == 0
    assert "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 not on a Monday" in out
    assert "2 nodes refused by Extender: not on a Monday" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("pod", "nobody"), 'pods "nobody" not found'),
        (("pod",), "say which pod: rota explain pod NAME, or -f FILE"),
        (("service", "web"), "say which pod: rota explain pod NAME, or -f FILE"),
    ],
)
def test_what_cannot_be_explained_is_one_line(
    live: LiveServer, capsys: pytest.CaptureFixture[str], *, arguments: tuple[str, ...], complaint: str
) -> None:
    code, out, err = rota(live, capsys, *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_a_manifest_that_is_no_pod_is_refused_by_path(
    live: LiveServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.yaml"
    for text, complaint in (
        ("kind: Service\n", f"rota: {wrong}.kind: must be Pod\n"),
        ("kind: Pod\nmetadata: {name: a}\nspec: {containers: 3}\n", f"rota: {wrong}.spec.containers: "),
        ("a: b\n---\nc: d\n", f"rota: {wrong}: holds 2 objects; give the manifest of one pod\n"),
        ("{", f"rota: {wrong}: not readable as YAML or JSON"),
    ):
        wrong.write_text(text)
        code, _, err = rota(live, capsys, "-f", str(wrong))
        assert code == 2
        assert err.startswith(complaint)


@pytest.mark.slow
def test_a_terminal_gets_colour(live: LiveServer) -> None:
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
    command = [str(Path(sys.executable).with_name("rota")), "explain", "pod", "big", "--server", live.url]
    child = subprocess.Popen(command, stdout=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert child.wait(30) == 0
    assert b"\x1b[31m" in shown


def test_a_pod_of_another_scheduler_is_not_promised_a_node(
    live: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    live.create(PODS, _pod("foreign", cpu="100m", schedulerName="volcano"))
    code, out, err = rota(live, capsys, "pod", "foreign")
    assert (code, err) == (0, "")
    assert out.startswith('default/foreign waits for a scheduler named "volcano" (spec.schedulerName)')
    assert "would go to" not in out
