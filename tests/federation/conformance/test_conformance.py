"""Decisions equal those of Karmada's own code, recorded on random situations.

`scenarios.jsonl.gz` holds 2,800 situations of all categories with what upstream answered.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.federation.conformance import agreement

from rota.federation import decide

RECORD = Path(__file__).with_name("scenarios.jsonl.gz")
#: How many of each category the file holds; so that none is lost without notice.
CATEGORIES = {
    "schedule": 986,
    "trigger": 94,
    "match": 132,
    "bind": 65,
    "override": 216,
    "interpret": 348,
    "evict": 235,
    "work": 94,
    "collect": 56,
    "divide": 76,
    "estimate": 140,
    "names": 38,
    "validate": 132,
    "hpa": 103,
    "usage": 28,
    "depend": 57,
}
#: For the quick tests, one of so many.
EVERY = 20


@cache
def recorded() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {category: [] for category in CATEGORIES}
    with gzip.open(RECORD) as lines:
        for line in lines:
            scenario = json.loads(line)
            found[scenario["category"]].append(scenario)
    return found


@pytest.mark.parametrize("category", CATEGORIES)
def test_some_decisions_are_those_of_upstream(category: str) -> None:
    assert not differing(recorded()[category][::EVERY])


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES)
def test_all_decisions_are_those_of_upstream(category: str) -> None:
    scenarios = recorded()[category]
    assert len(scenarios) == CATEGORIES[category]
    assert not differing(scenarios)


def differing(scenarios: list[dict[str, Any]]) -> dict[str, list[str]]:
    """What differs, by the names of the scenarios."""
    different = {}
    for scenario in scenarios:
        given = {name: value for name, value in scenario.items() if name != "expect"}
        decided = json.loads(json.dumps(decide.decide(json.loads(json.dumps(given)))))
        found = agreement.differences(agreement.pruned(decided), agreement.pruned(scenario["expect"]))
        if found:
            different[scenario["id"]] = found
    return different


def test_a_decision_leaves_its_scenario_alone() -> None:
    for scenarios in recorded().values():
        for scenario in scenarios[:10]:
            before = json.dumps(scenario, sort_keys=True)
            decide.decide(scenario)
            assert json.dumps(scenario, sort_keys=True) == before


def test_the_comparison_sees_differences() -> None:
    expected = {"clusters": [{"name": "m1", "replicas": 2}], "condition": {"reason": "Success"}, "ok": True}
    assert not agreement.differences(expected, expected)
    for other in (
        {**expected, "clusters": [{"name": "m1", "replicas": 3}]},
        {**expected, "clusters": []},
        {**expected, "condition": {"reason": "Unschedulable"}},
        {**expected, "ok": 1},
        {**expected, "more": 1},
        {"clusters": expected["clusters"], "ok": True},
        {**expected, "error": "something"},
    ):
        assert agreement.differences(other, expected)
