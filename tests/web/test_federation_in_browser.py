"""The dashboard of a federation's control plane: its clusters, what is placed where, and what moved and why."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.federation.live.live_place import deployment, policy
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
            for one in (
                deployment("shop", "default", 2, terminationGracePeriodSeconds=1),
                policy("default", "apps/v1", "Deployment", selected="shop", divided=True),
            ):
                rota(config, "submit", "-", stdin=json.dumps(one))
            placed = visit.page.get_by_role("region", name="Placements").get_by_role("row").filter(has_text="shop")
            for name in ("m1", "m2"):
                placed.get_by_text(f"{name} 1 of 1", exact=True).first.wait_for()
            rota(config, "federation", "taint", "m2", "maintenance=yes:NoExecute")
            placed.get_by_text("m1 2 of 2", exact=True).first.wait_for()
            moved = visit.page.get_by_role("region", name="Moves").get_by_role("row")
            moved.filter(has_text=re.compile("evicted from m2.*TaintUntolerated")).first.wait_for()
            clusters.get_by_text("maintenance:NoExecute").wait_for()
