"""The dashboard of a federation's control plane: its clusters, what is placed where, and what moved and why."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.conftest import visiting
from tests.web.test_beside import rota

from rota.testing.federations import FederationProcess, MemberProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    # A page waits up to a minute for each of several things on a busy machine.
    pytest.mark.timeout(600),
]


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def policy(name: str) -> dict[str, Any]:
    weights = [{"targetCluster": {"clusterNames": [one]}, "weight": 1} for one in ("m1", "m2")]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
            "placement": {
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": weights},
                }
            },
        },
    }


def test_clusters_placements_and_moves_of_a_federation(browser: "Browser", tmp_path: Path) -> None:
    with (
        MemberProcess(tmp_path / "m1") as first,
        MemberProcess(tmp_path / "m2") as second,
        FederationProcess(tmp_path / "federation") as federation,
    ):
        config = federation.folder / "kubeconfig"
        for name, member in (("m1", first), ("m2", second)):
            rota(config, "federation", "join", name, "--member", str(member.folder / "kubeconfig"))
        ticket = json.loads(rota(config, "dashboard", "--json"))["url"]
        with visiting(browser, ticket.partition("#")[0], ignore_https_errors=True) as visit:
            visit.page.goto(ticket)
            visit.page.get_by_role("heading", name="Overview").wait_for()
            visit.open("federation")
            clusters = visit.page.get_by_role("region", name="Clusters")
            for name in ("m1", "m2"):
                clusters.get_by_role("heading", name=name).get_by_text(re.compile(r"(^|\s)Ready$")).wait_for()
            clusters.get_by_text("1 of 1 nodes ready").nth(1).wait_for()
            visit.see("Nothing has moved")
            for one in (deployment("shop", 2), policy("shop")):
                rota(config, "submit", "-", stdin=json.dumps(one))
            placed = visit.page.get_by_role("region", name="Placements").get_by_role("row").filter(has_text="shop")
            for name in ("m1", "m2"):
                placed.get_by_text(f"{name} 1 of 1", exact=True).first.wait_for()
            rota(config, "federation", "taint", "m2", "maintenance=yes:NoExecute")
            placed.get_by_text("m1 2 of 2", exact=True).first.wait_for()
            moved = visit.page.get_by_role("region", name="Moves").get_by_role("row")
            moved.filter(has_text=re.compile("evicted from m2.*TaintUntolerated")).first.wait_for()
            clusters.get_by_text("maintenance:NoExecute").wait_for()
