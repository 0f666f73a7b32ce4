"""Rules that cover others: covered rules allow nothing new."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.apiserver.authorization import rules
from rota.apiserver.authorization.rules import Rule
from rota.apiserver.interfaces import Question, User

_USER = User(name="u")
_words = st.lists(st.sampled_from(["*", "a", "b"]), min_size=1, max_size=2).map(tuple)
_resources = st.lists(st.sampled_from(["*", "r", "s", "r/x", "*/x", "s/y"]), min_size=1, max_size=3).map(tuple)
_names = st.sampled_from([(), ("n",), ("m", "n")])
_paths = st.lists(st.sampled_from(["*", "/a", "/a/*", "/a/b", "/b*"]), min_size=1, max_size=2).map(tuple)
_rules = st.lists(
    st.one_of(
        st.builds(Rule, verbs=_words, groups=_words, resources=_resources, names=_names),
        st.builds(Rule, verbs=_words, paths=_paths),
    ),
    max_size=4,
)
_QUESTIONS = [
    Question(user=_USER, verb=verb, group=group, resource=resource, subresource=part, name=name)
    for verb, group, resource, part, name in itertools.product("abc", "abc", "rst", ("", "x", "y"), ("", "m", "n", "o"))
] + [Question(user=_USER, verb=verb, path=path) for verb in "abc" for path in ("/a", "/a/b", "/a/c", "/b", "/bb", "/c")]


def _allowed(found: list[Rule]) -> set[int]:
    return {number for number, question in enumerate(_QUESTIONS) if any(rules.allows(rule, question) for rule in found)}


@pytest.mark.slow
@given(_rules, _rules)
def test_what_is_covered_allows_nothing_new(owned: list[Rule], wanted: list[Rule]) -> None:
    if not rules.uncovered(owned, wanted):
        assert _allowed(wanted) <= _allowed(owned)


@pytest.mark.slow
@given(_rules, _rules)
def test_what_is_not_covered_makes_up_for_the_difference(owned: list[Rule], wanted: list[Rule]) -> None:
    missing = rules.uncovered(owned, wanted)
    assert _allowed(wanted) <= _allowed([*owned, *missing])
    assert _allowed(rules.joined(missing)) == _allowed(missing)


@pytest.mark.slow
@given(_rules)
def test_rules_cover_themselves_and_everything_covers_them(found: list[Rule]) -> None:
    assert not rules.uncovered(found, found)
    assert not rules.uncovered(rules.EVERYTHING, found)


@pytest.mark.slow
@given(_rules)
def test_a_rule_and_its_pieces_say_the_same(found: list[Rule]) -> None:
    assert _allowed(found) == _allowed([piece for rule in found for piece in rules.pieces(rule)])


@pytest.mark.slow
@given(_rules)
def test_a_rule_comes_back_from_the_wire_as_it_went(found: list[Rule]) -> None:
    assert [Rule.from_wire(rule.to_wire()) for rule in found] == found


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        ({"resources": ("pods",)}, {"resources": ("pods/log",)}, ["pods/log"]),
        ({"resources": ("*/scale",)}, {"resources": ("deployments/scale", "deployments")}, ["deployments"]),
        ({"resources": ("pods",), "names": ("a",)}, {"resources": ("pods",)}, ["pods"]),
        ({"resources": ("pods",)}, {"resources": ("pods",), "names": ("a",)}, []),
        ({"resources": ("pods", "secrets")}, {"resources": ("*",)}, ["*"]),
    ],
)
def test_single_cases_of_covering(owned: dict[str, Any], wanted: dict[str, Any], missing: list[str]) -> None:
    common = {"verbs": ("get",), "groups": ("",)}
    found = rules.uncovered([Rule(**common, **owned)], [Rule(**common, **wanted)])
    assert [piece.resources[0] for piece in found] == missing


def test_a_rule_reads_as_go_prints_it() -> None:
    rule = Rule(verbs=("get", "list"), groups=("", "apps"), resources=("pods",), names=("a",))
    assert str(rule) == '{APIGroups:["" "apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}'
    assert str(Rule(verbs=("get",), paths=("/x",))) == '{NonResourceURLs:["/x"], Verbs:["get"]}'
