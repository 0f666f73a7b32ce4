"""When the next plan of a policy is due, and what is written into one that somebody has made anew meanwhile."""

from typing import Any

from rota.api import times
from rota.scheduler.rebalancing import policies

NOW = times.parse("2026-01-01T12:00:00Z")


def test_refusals_are_reported_on_a_policy_recreated_since_the_plan() -> None:
    fresh: dict[str, Any] = {"metadata": {"name": policies.NAME, "generation": 1}, "spec": {}}
    written = policies.refused(fresh, {"u": "budget"}, now=NOW)
    (condition,) = written["status"]["conditions"]
    assert condition["message"] == "0 pods were moved, 1 could not be"
    assert policies.wait_s(written, now=NOW) == 0.0, "it has had no plan of its own yet"


def test_a_policy_that_was_changed_since_a_plan_that_moved_nothing_is_due() -> None:
    changed = {
        "metadata": {"name": policies.NAME, "generation": 2},
        "spec": {"intervalSeconds": 600},
        "status": {"observedGeneration": 1, "lastRunTime": times.format_micro_time(NOW - 1), "moves": []},
    }
    assert policies.wait_s(changed, now=NOW) == 0.0
    same = {**changed, "metadata": {"name": policies.NAME, "generation": 1}}
    assert 0 < policies.wait_s(same, now=NOW) <= 600
