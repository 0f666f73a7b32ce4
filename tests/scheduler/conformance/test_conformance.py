"""Decisions equal those of kube-scheduler's own plugins, recorded on random situations.

`scenarios.jsonl.gz` holds 3,000 situations with what the in-tree plugins answered; numbers agree when they are equal.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rota.columns.pod_interner import PodInterner
from rota.scheduler.config import resolution
from rota.scheduler.config.specs import specs_of
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.explanation import decision_report
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.plugin_registry import builtin
from rota.scheduler.snapshot import scenarios

RECORD = Path(__file__).with_name("scenarios.jsonl.gz")
CATEGORIES = (
    "resources",
    "taints",
    "nodeaffinity",
    "podaffinity",
    "spread",
    "ports",
    "images",
    "mixed",
    "config",
    "preemption",
)
QUICK = 20

REGISTRY = builtin.registry()
SPECS = specs_of(REGISTRY)
DEFAULT = resolution.default(SPECS).first


@cache
def recorded() -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {category: [] for category in CATEGORIES}
    with gzip.open(RECORD) as lines:
        for line in lines:
            # The category stands first in every line, so that lines need not be parsed to be sorted.
            found[line.split(b'"', 4)[3].decode()].append(line)
    return found


def decided(scenario: dict[str, Any]) -> dict[str, Any]:
    profile = DEFAULT
    if "config" in scenario:
        profile = resolution.resolve(resolution.read(scenario["config"]), SPECS).first
    situation = scenarios.read_scenario(scenario, PodInterner())
    decision = Decider(Framework(profile, REGISTRY), situation.cluster).decide(situation.pod)
    return decision_report.to_document(decision_report.explain(decision))


def disagreements(lines: list[bytes]) -> list[str]:
    found = []
    for line in lines:
        scenario = json.loads(line)
        if decided(scenario) != scenario["expect"]:
            found.append(scenario["id"])
    return found


def test_the_record_is_complete() -> None:
    assert {category: len(lines) for category, lines in recorded().items()} == dict.fromkeys(CATEGORIES, 300)


@pytest.mark.parametrize("category", CATEGORIES)
def test_decisions_agree_with_the_stock_scheduler(category: str) -> None:
    assert disagreements(recorded()[category][:QUICK]) == []


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES)
def test_all_decisions_agree_with_the_stock_scheduler(category: str) -> None:
    assert disagreements(recorded()[category][QUICK:]) == []
