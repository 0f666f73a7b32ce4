"""Several extenders together: who is asked about what, and what becomes of failures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.scheduler.extenders.conftest import Farm

from rota.scheduler.extenders.chain import ExtenderChain
from rota.scheduler.extenders.extender_interface import PLUGIN, ExtenderError, FilterVerdict
from rota.scheduler.framework.status import SUCCESS, Code
from rota.scheduler.preemption.victims import Candidate
from rota.testing import clusters

POD = clusters.make_pod("web")


@dataclass
class Scripted:
    """An extender that refuses, rates and spares what it was told to."""

    name: str
    weight: int = 1
    ignorable: bool = False
    is_filter: bool = True
    is_prioritizer: bool = True
    supports_preemption: bool = True
    is_binder: bool = False
    caring: bool = True
    broken: bool = False
    refuses: Mapping[str, str] = field(default_factory=dict)
    forbids: Mapping[str, str] = field(default_factory=dict)
    drops: frozenset[str] = frozenset()
    ratings: Mapping[str, int] = field(default_factory=dict)
    spares: frozenset[str] = frozenset()
    asked: list[Any] = field(default_factory=list)

    def interested(self, pod: Mapping[str, Any]) -> bool:
        return self.caring

    async def filter(self, pod: Mapping[str, Any], nodes: Sequence[str]) -> FilterVerdict:
        self._note(tuple(nodes))
        gone = {*self.refuses, *self.forbids, *self.drops}
        kept = tuple(name for name in nodes if name not in gone)
        return FilterVerdict(feasible=kept, failed=self.refuses, unresolvable=self.forbids)

    async def prioritize(self, pod: Mapping[str, Any], nodes: Sequence[str]) -> Mapping[str, int]:
        self._note(tuple(nodes))
        return self.ratings

    async def preempt(self, pod: Mapping[str, Any], candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        self._note(tuple(each.node_name for each in candidates))
        return [
            Candidate(each.node_name, tuple(pod for pod in each.victims if pod.name not in self.spares), 0)
            for each in candidates
            if each.node_name not in self.drops
        ]

    async def bind(self, pod: Mapping[str, Any], node: str) -> None:
        self._note(node)

    async def close(self) -> None:
        self.asked.append("close")

    def _note(self, question: Any) -> None:
        self.asked.append(question)
        if self.broken:
            raise ExtenderError(self.name, "is broken")


async def test_filters_go_from_one_extender_to_the_next() -> None:
    first = Scripted("first", refuses={"a": "busy"}, forbids={"b": "wrong site"})
    second = Scripted("second", drops=frozenset({"c"}))
    narrowed = await ExtenderChain([first, second]).filter(POD, ["a", "b", "c", "d"])
    assert second.asked == [("c", "d")]
    assert narrowed.feasible == ("d",)
    assert narrowed.failure is None
    told = {name: (status.code, status.reasons, status.plugin) for name, status in narrowed.refusals.items()}
    assert told == {
        "a": (Code.UNSCHEDULABLE, ("busy",), PLUGIN),
        "b": (Code.UNRESOLVABLE, ("wrong site",), PLUGIN),
        "c": (Code.UNRESOLVABLE, ("node(s) left out by extender second",), PLUGIN),
    }
    assert narrowed.refused_by == {"a": "first", "b": "first", "c": "second"}


async def test_what_is_unresolvable_wins_over_what_failed() -> None:
    both = Scripted("both", refuses={"a": "busy"}, forbids={"a": "wrong site"})
    narrowed = await ExtenderChain([both]).filter(POD, ["a"])
    assert narrowed.refusals["a"].code is Code.UNRESOLVABLE


async def test_no_extender_is_called_without_nodes_or_for_pods_of_others() -> None:
    everything = Scripted("everything", drops=frozenset({"a"}))
    late, other, rater = Scripted("late"), Scripted("other", caring=False), Scripted("rater", is_filter=False)
    await ExtenderChain([other, rater, everything, late]).filter(POD, ["a"])
    assert (late.asked, other.asked, rater.asked) == ([], [], [])


async def test_a_failing_filter_fails_the_attempt_unless_it_may_fail() -> None:
    optional = Scripted("optional", broken=True, ignorable=True)
    narrowed = await ExtenderChain([optional]).filter(POD, ["a"])
    assert (narrowed.feasible, narrowed.failure) == (("a",), None)
    needed = Scripted("needed", broken=True)
    narrowed = await ExtenderChain([optional, needed]).filter(POD, ["a"])
    assert narrowed.feasible == ()
    assert narrowed.failure is not None
    assert (narrowed.failure.code, narrowed.failure.reasons) == (Code.ERROR, ("extender needed: is broken",))


async def test_ratings_are_added_up_by_weight_on_the_scale_of_plugins() -> None:
    extender_chain = ExtenderChain(
        [
            Scripted("one", weight=2, ratings={"a": 10, "b": 1}),
            Scripted("two", weight=1, ratings={"b": 5, "elsewhere": 10}),
            Scripted("three", broken=True, ratings={"a": 10}),
        ]
    )
    assert await extender_chain.prioritize(POD, ["a", "b"]) == {"a": 200, "b": 70}


async def test_an_error_that_is_not_the_extenders_is_not_hidden() -> None:
    class Buggy(Scripted):
        async def prioritize(self, pod: Mapping[str, Any], nodes: Sequence[str]) -> Mapping[str, int]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ExtenderChain([Buggy("buggy")]).prioritize(POD, ["a"])


def _candidates(farm: Farm) -> list[Candidate]:
    return [Candidate(name, tuple(farm.cluster.by_name[name].pods.values()), 0) for name in ("n1", "n2")]


async def test_preemption_goes_from_one_extender_to_the_next(farm: Farm) -> None:
    sparing, dropping = Scripted("sparing", spares=frozenset({"b"})), Scripted("dropping", drops=frozenset({"n2"}))
    chosen = await ExtenderChain([sparing, dropping]).preempt(POD, _candidates(farm))
    assert isinstance(chosen, list)
    assert [(each.node_name, [pod.name for pod in each.victims]) for each in chosen] == [("n1", ["a"])]


async def test_a_node_left_without_victims_is_an_error_unless_the_extender_may_fail(farm: Farm) -> None:
    merciful = Scripted("merciful", spares=frozenset({"c"}))
    refused = await ExtenderChain([merciful]).preempt(POD, _candidates(farm))
    assert not isinstance(refused, Sequence)
    assert refused.reasons == ("extender merciful: names no victim on node n2; leave the node out instead",)
    merciful.ignorable = True
    chosen = await ExtenderChain([merciful]).preempt(POD, _candidates(farm))
    assert isinstance(chosen, Sequence)
    assert [each.node_name for each in chosen] == ["n1"]


async def test_a_failing_preemption_fails_the_attempt_unless_it_may_fail(farm: Farm) -> None:
    broken = Scripted("broken", broken=True)
    refused = await ExtenderChain([broken]).preempt(POD, _candidates(farm))
    assert not isinstance(refused, Sequence)
    assert refused.code is Code.ERROR
    broken.ignorable = True
    assert await ExtenderChain([broken]).preempt(POD, candidates := _candidates(farm)) == candidates


async def test_the_first_interested_binder_binds() -> None:
    other, binder = Scripted("other", is_binder=True, caring=False), Scripted("binder", is_binder=True)
    extender_chain = ExtenderChain([other, binder])
    assert await extender_chain.bind(POD, "a") is SUCCESS
    assert (other.asked, binder.asked) == ([], ["a"])
    assert extender_chain.binder(POD) is binder


async def test_a_failing_binder_fails_the_binding_or_leaves_it_to_plugins() -> None:
    assert (await ExtenderChain([]).bind(POD, "a")).skipped
    broken = Scripted("broken", is_binder=True, broken=True)
    assert (await ExtenderChain([broken]).bind(POD, "a")).code is Code.ERROR
    broken.ignorable = True
    assert (await ExtenderChain([broken]).bind(POD, "a")).skipped


async def test_a_chain_knows_which_extenders_it_would_ask() -> None:
    extender_chain = ExtenderChain([Scripted("rater", is_filter=False, supports_preemption=False)])
    assert extender_chain
    assert not ExtenderChain()
    assert (extender_chain.filters(POD), extender_chain.prioritizes(POD), extender_chain.preempts(POD)) == (
        False,
        True,
        False,
    )
