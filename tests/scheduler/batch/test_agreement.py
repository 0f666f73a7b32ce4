"""Sessions come to what Volcano's own scheduler came to, recorded on random situations.

`scenarios.jsonl.xz` holds 2,210 situations of 32 categories with the bindings, evictions, held places, phases and
conditions that Volcano (commit ed72c7c815a9, 2026-08-20) came to in one session each.
"""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rota.scheduler.batch import scenarios

RECORD = Path(__file__).with_name("scenarios.jsonl.xz")
SIZES = {
    "backfill": 85,
    "binpack": 85,
    "busy": 73,
    "capacity": 85,
    "capacity-tree": 85,
    "conformance": 53,
    "cooldown": 53,
    "drf": 85,
    "enqueue": 85,
    "gang": 85,
    "gangpreempt": 59,
    "gangreclaim": 56,
    "gates": 60,
    "hdrf": 79,
    "nodegroup": 60,
    "nodeorder": 60,
    "predicates": 85,
    "preempt": 81,
    "preempt-topology": 56,
    "priority": 85,
    "proportion": 85,
    "reclaim": 69,
    "reclaim-capacity": 81,
    "resourcequota": 60,
    "sla": 60,
    "strategy-fit": 60,
    "subgroups": 60,
    "switches": 56,
    "task-topology": 51,
    "tdm": 53,
    "topology": 60,
    "usual": 60,
}
QUICK = 8
EXACT = ("binds", "evicts", "pipelined", "held", "podGroupPhases")


@cache
def recorded() -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {category: [] for category in SIZES}
    with lzma.open(RECORD) as lines:
        for line in lines:
            # The category stands first in every line, so that lines need not be parsed to be sorted.
            found[line.split(b'"', 4)[3].decode()].append(line)
    return found


def differences(line: bytes) -> list[str]:
    """Name the parts of a decision that are not as recorded."""
    scenario = json.loads(line)
    wanted, decision = scenario["expect"], scenarios.decide(scenario).document()
    parts = [part for part in EXACT if decision.get(part, {}) != wanted.get(part, {})]
    parts += [part for part in ("conditions", "podConditions") if not agree(decision[part], wanted.get(part, {}))]
    return [f"{scenario['id']}: {part}" for part in parts]


def agree(given: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]]) -> bool:
    """Compare conditions; what differs between two runs of Volcano on the same input was not recorded."""
    return all(
        {**given.get(key, {}), "message": ""} == {**wanted[key], "message": ""}
        and wanted[key].get("message", given[key]["message"]) == given[key]["message"]
        for key in wanted
    )


def test_the_record_is_complete() -> None:
    assert {category: len(lines) for category, lines in recorded().items()} == SIZES


@pytest.mark.parametrize("category", SIZES)
def test_sessions_agree_with_volcano(category: str) -> None:
    assert [each for line in recorded()[category][:QUICK] for each in differences(line)] == []


@pytest.mark.slow
@pytest.mark.parametrize("category", SIZES)
def test_all_sessions_agree_with_volcano(category: str) -> None:
    assert [each for line in recorded()[category] for each in differences(line)] == []


@pytest.mark.slow
@pytest.mark.parametrize("category", SIZES)
def test_quick_sessions_make_the_same_moves(category: str) -> None:
    """Live passes keep what they know of shapes; only the words of reasons may be newer."""
    for line in recorded()[category]:
        scenario = json.loads(line)
        decision, wanted = scenarios.decide(scenario, quick=True).document(), scenario["expect"]
        for part in EXACT:
            assert decision.get(part, {}) == wanted.get(part, {}), f"{scenario['id']}: {part}"
