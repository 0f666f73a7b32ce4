"""Label selectors: what they select, how they print, and what is said about wrong ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api import selectors
from rota.api.selectors import EVERYTHING, NOTHING, Operator, Requirement, Selector, SelectorError


@pytest.mark.parametrize(
    ("text", "selected", "refused"),
    [
        ("", [{}, {"a": "b"}], []),
        ("a=b", [{"a": "b", "c": "d"}], [{}, {"a": "c"}]),
        ("a==b", [{"a": "b"}], [{}, {"a": ""}]),
        ("a=", [{"a": ""}], [{}, {"a": "b"}]),
        ("a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
        ("a in (b,c)", [{"a": "b"}, {"a": "c"}], [{}, {"a": "d"}]),
        ("a notin (b,c)", [{}, {"a": "d"}], [{"a": "b"}]),
        ("a in ()", [{"a": ""}], [{}, {"a": "b"}]),
        ("a in (,b)", [{"a": ""}, {"a": "b"}], [{"a": "c"}]),
        ("a in (b,,c)", [{"a": ""}, {"a": "c"}], [{}]),
        ("a in (in,notin)", [{"a": "in"}, {"a": "notin"}], [{"a": "b"}]),
        ("in=x", [{"in": "x"}], [{}]),
        ("a", [{"a": ""}, {"a": "b"}], [{}]),
        ("!a", [{}, {"b": "c"}], [{"a": ""}]),
        ("a>5", [{"a": "6"}], [{}, {"a": "5"}, {"a": "x"}, {"a": "99999999999999999999"}]),
        ("a<5", [{"a": "-6"}, {"a": "4"}], [{"a": "5"}, {}]),
        ("  a = b ,\tc\nin ( d ) ", [{"a": "b", "c": "d"}], [{"a": "b"}]),
        ("example.com/a=b,!c", [{"example.com/a": "b"}], [{"example.com/a": "b", "c": ""}]),
    ],
)
def test_a_query_selects_what_upstream_selects(
    text: str, selected: list[dict[str, str]], refused: list[dict[str, str]]
) -> None:
    selector = selectors.parse(text)
    assert all(selector.matches(labels) for labels in selected)
    assert not any(selector.matches(labels) for labels in refused)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("b=1 , a", "a,b=1"),
        ("a==b", "a==b"),
        ("a in (c,b,b)", "a in (b,c)"),
        ("a in ()", "a in ()"),
        ("! a", "!a"),
        ("a > 5", "a>5"),
        ("a notin (x)", "a notin (x)"),
    ],
)
def test_a_selector_prints_canonically(text: str, canonical: str) -> None:
    assert str(selectors.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_a_wrong_query_is_refused_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        selectors.parse(text)
    assert str(caught.value) == message


def test_wrong_keys_and_values_are_named() -> None:
    with pytest.raises(
        SelectorError, match=r'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label'
    ):
        selectors.parse("a/b/c=d")
    with pytest.raises(
        SelectorError, match=r'unable to parse requirement: values\[0\]\[a\]: Invalid value: "-b": a valid'
    ):
        selectors.parse("a=-b")
    with pytest.raises(SelectorError, match=r"^\[key: Invalid value.*, values: Invalid value: \[\]: for 'in'"):
        selectors.requirement("", Operator.IN)


@pytest.mark.parametrize(
    ("operator", "values", "message"),
    [
        (Operator.EQUALS, ["a", "b"], "exact-match compatibility requires one single value"),
        (Operator.EXISTS, ["a"], "values set must be empty for exists and does not exist"),
        (Operator.GREATER_THAN, [], "exactly one value is required"),
    ],
)
def test_the_number_of_values_is_checked(operator: Operator, values: list[str], message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        selectors.requirement("a", operator, values)


def test_a_selector_object_combines_labels_and_expressions() -> None:
    selector = selectors.from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["front", "back"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        }
    )
    assert str(selector) == "app=web,!old,tier in (back,front)"
    assert selector.matches({"app": "web", "tier": "back"})
    assert not selector.matches({"app": "web", "tier": "back", "old": ""})


def test_no_selector_object_selects_nothing_and_an_empty_one_everything() -> None:
    assert selectors.from_object(None) is NOTHING
    assert selectors.from_object({}) is EVERYTHING
    assert not NOTHING.matches({"a": "b"})
    assert not NOTHING.empty
    assert EVERYTHING.empty
    assert EVERYTHING.matches(None)


def test_an_unknown_operator_of_a_selector_object_is_named() -> None:
    with pytest.raises(SelectorError, match='"Gt" is not a valid label selector operator'):
        selectors.from_object({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})


def test_selectors_are_values() -> None:
    assert selectors.parse("a=b,c") == selectors.parse("c , a=b")
    assert hash(selectors.parse("a=b,c")) == hash(selectors.parse("c , a=b"))
    assert selectors.from_labels({"a": "b"}) == selectors.parse("a=b")
    assert selectors.parse("a in (b),c").required_value("a") == "b"
    assert selectors.parse("a in (b),c").required_value("c") is None


names = st.text("abcXYZ019", min_size=1, max_size=4)
values = st.one_of(st.just(""), names)
requirements = st.one_of(
    st.builds(
        lambda key, operator, found: Requirement(key, operator, tuple(sorted(found))),
        names,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sets(values, min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator, value: Requirement(key, operator, (value,)),
        names,
        st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS]),
        values,
    ),
    st.builds(
        lambda key, operator, value: Requirement(key, operator, (str(value),)),
        names,
        st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]),
        st.integers(0, 2**63 - 1),
    ),
    st.builds(Requirement, names, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
)
any_selectors = st.lists(requirements, max_size=4).map(selectors.combine)
label_sets = st.dictionaries(names, st.one_of(values, st.integers(-9, 9).map(str)), max_size=4)


@given(any_selectors)
def test_printing_and_parsing_gives_the_same_selector(selector: Selector) -> None:
    assert selectors.parse(str(selector)) == selector


@given(any_selectors, label_sets)
def test_a_selector_matches_exactly_if_all_its_requirements_do(selector: Selector, labels: dict[str, str]) -> None:
    expected = all(requirement.matches(labels) for requirement in selector.requirements)
    assert selector.matches(labels) is expected


@settings(max_examples=50)
@given(requirements.filter(lambda one: one.operator not in {Operator.GREATER_THAN, Operator.LESS_THAN}), label_sets)
def test_each_operator_is_the_negation_of_its_opposite(requirement: Requirement, labels: dict[str, str]) -> None:
    opposite = {
        Operator.IN: Operator.NOT_IN,
        Operator.NOT_IN: Operator.IN,
        Operator.EQUALS: Operator.NOT_EQUALS,
        Operator.DOUBLE_EQUALS: Operator.NOT_EQUALS,
        Operator.NOT_EQUALS: Operator.EQUALS,
        Operator.EXISTS: Operator.DOES_NOT_EXIST,
        Operator.DOES_NOT_EXIST: Operator.EXISTS,
    }[requirement.operator]
    negated = Requirement(requirement.key, opposite, requirement.values)
    assert negated.matches(labels) is not requirement.matches(labels)


@given(st.text("abin ot(),=!<>5", max_size=16))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        selector = selectors.parse(text)
    except SelectorError:
        return
    assert selectors.parse(str(selector)) == selector
