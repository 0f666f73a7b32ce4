"""Scenarios that are wrong somewhere are refused as such, whatever is wrong."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from tests.federation.conformance.test_conformance import recorded

from rota.federation import decide

MISFITS: tuple[Any, ...] = (None, "", -1, 0, [], {}, "x", ["y"], {"a": 1}, 1.5, True)
ROUNDS = 600


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside a value."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in below:
        yield (*path, name)
        yield from places(one, (*path, name))


def test_a_scenario_with_a_misfit_is_decided_or_refused() -> None:
    rng = random.Random(5)  # the same misfits every time
    scenarios = [scenario for of_category in recorded().values() for scenario in of_category]
    refusals = []
    for _ in range(ROUNDS):
        scenario = copy.deepcopy(rng.choice(scenarios))
        del scenario["expect"]
        path = rng.choice([path for path in places(scenario) if path[0] != "category"])
        target: Any = scenario
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = rng.choice(MISFITS)
        try:
            decide.decide(scenario)
        except decide.ScenarioError as error:
            refusals.append(str(error))
    assert 0 < len(refusals) < ROUNDS
    assert not [one for one in refusals if "\n" in one]
