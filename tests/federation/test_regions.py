"""Regions of a spread constraint: the search for combinations ends, and finds one if there is any."""

from typing import Any

import pytest

from rota.federation.placement import regions
from rota.federation.placement.regions import Region


def region(number: int, clusters: int = 1) -> Region:
    members: list[Any] = [object()] * clusters
    return Region(f"r{number:03d}", members, number)


def test_the_number_of_combinations_does_not_keep_the_scheduler_busy() -> None:
    many = {one.name: one for one in map(region, range(100))}
    found = regions.choose(many, 10, 10, 10)
    assert len(found) == 10


@pytest.mark.parametrize("largest", [1, 3])
def test_a_search_that_ends_early_finds_a_combination_if_there_is_one(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [*map(region, range(6)), region(6, largest)]
    known = {one.name: one for one in few}
    whole = regions.choose(known, 2, 2, 4)
    monkeypatch.setattr(regions, "_MOST_STEPS", 2)
    early = regions.choose(known, 2, 2, 4)
    assert bool(whole) == bool(early) == (largest == 3)
    assert not early or sum(len(one.clusters) for one in early) >= 4
