"""`rota rebalance`: what it shows and asks before it moves anything."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Rota

from rota.api import drifts
from rota.scheduler.rebalancing.rebalance_plan import Strategy
from rota.testing import manifests
from rota.testing.live import LiveServer

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """A server of this module's own: a plan is about all nodes there are."""
    with LiveServer() as live:
        yield live


def test_the_strategies_that_can_be_named_are_those_that_there_are() -> None:
    assert list(drifts.DRIFTS) == [one.value for one in Strategy]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--strategy", "balance", "--strategy", "compact"], "choose one of them"),
        (["--dry-run", "--every", "5"], "leave out --every"),
        (["--every", "5"], "say --yes"),
        (["--empty-below", "80"], "thresholds"),
        (["--strategy", "chaos"], "chaos"),
        (["--cluster", __file__], "say --dry-run"),
        (["--cluster", __file__, "--dry-run", "--by", "usage"], "reads no usage"),
    ],
)
def test_what_contradicts_itself_is_refused(rota: Rota, arguments: list[str], complaint: str) -> None:
    said = rota("rebalance", *arguments)
    assert said.code == 2
    assert complaint in said.err


def test_a_dry_run_shows_the_moves_and_the_nodes_before_and_after(
    rota: Rota, server: LiveServer, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        server.create("/api/v1/nodes", manifests.node(name))
    pod = manifests.pod("p", on="a")
    pod["metadata"]["ownerReferences"] = [OWNER]
    path = "/api/v1/namespaces/default/pods"
    server.create(path, pod)
    running = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
    tainted = {"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}
    for where, change in ((f"{path}/p/status", running), ("/api/v1/nodes/a", tainted)):
        server.request("PATCH", where, change, content_type="application/merge-patch+json")
    shown = rota("rebalance", "--dry-run")
    assert shown.code == 0, shown.err
    assert "it does not tolerate a taint of a" in shown.out
    assert "misplaced pods 1 -> 0" in shown.out
    told = json.loads(rota("rebalance", "--dry-run", "--json").out)
    assert [(move["name"], move["target"]) for move in told["moves"]] == [("p", "b")]
    dump = str(tmp_path / "now.jsonl.gz")
    assert rota("dump", dump).code == 0
    assert json.loads(rota("rebalance", "--dry-run", "--json", "--cluster", dump).out) == told
    unasked = rota("rebalance")
    assert unasked.code == 2
    assert "say --yes" in unasked.err
    assert "1 pods were evicted" in rota("rebalance", "--yes").out
    assert "Nothing should move." in rota("rebalance", "--dry-run").out
