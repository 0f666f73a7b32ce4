"""The order of steps."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rota.api.pipelines import graphs

NAMES = [f"s{number}" for number in range(8)]


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, frozenset[str]]:
    names = draw(st.permutations(NAMES[: draw(st.integers(0, 8))]))
    made = {}
    for position, name in enumerate(names):
        made[name] = frozenset(draw(st.sets(st.sampled_from(names[:position])))) if position else frozenset()
    return {name: made[name] for name in sorted(made)}


ANY = st.dictionaries(st.sampled_from(NAMES), st.frozensets(st.sampled_from(NAMES), max_size=3))


@given(acyclic())
def test_every_step_comes_after_its_dependencies(graph: dict[str, frozenset[str]]) -> None:
    found = graphs.order(graph)
    assert sorted(found) == sorted(graph)
    for name, waits in graph.items():
        assert all(found.index(other) < found.index(name) for other in waits)
    assert graphs.cycle(graph) == []
    level = {name: number for number, names in enumerate(graphs.layers(graph)) for name in names}
    for name, waits in graph.items():
        assert level[name] == max((level[other] + 1 for other in waits), default=0)


@given(ANY)
def test_a_circle_is_shown_as_one_and_missed_never(graph: dict[str, frozenset[str]]) -> None:
    found = graphs.cycle(graph)
    if found:
        assert found[0] == found[-1]
        assert all(other in graph[name] for name, other in itertools.pairwise(found))
    else:
        remaining = {name: {other for other in waits if other in graph} for name, waits in graph.items()}
        while free := [name for name, waits in remaining.items() if not waits]:
            for name in free:
                del remaining[name]
            for waits in remaining.values():
                waits.difference_update(free)
        assert not remaining


def test_ten_thousand_steps_in_a_chain_are_no_trouble() -> None:
    chain = {f"s{number}": frozenset({f"s{number - 1}"} if number else ()) for number in range(10_000)}
    assert graphs.cycle(chain) == []
    assert len(graphs.layers(chain)) == 10_000


def test_what_a_step_mentions_it_waits_for() -> None:
    steps: list[dict[str, Any]] = [
        {"name": "a"},
        {"name": "b", "dependsOn": ["a"]},
        {"name": "c", "when": 'steps.b.status == "Failed"', "template": {"args": ["{{ steps.a.outputs.x }}"]}},
    ]
    assert graphs.graph(steps) == {"a": frozenset(), "b": frozenset("a"), "c": frozenset("ab")}
