"""References and conditions of pipelines."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api.pipelines import expressions
from rota.api.pipelines.expressions import ExpressionError, Reference, Unknown

VALUES: dict[str, Any] = {
    "parameters": {"model": "small", "rows": "10", "dry": False, "names": ["a", "b"]},
    "steps": {"test-it": {"status": "Succeeded", "outputs": {"n": "7"}}},
    "item": {"name": "x", "size": 3},
}


def lookup(reference: Reference) -> Any:
    value: Any = VALUES
    for step in reference:
        if not isinstance(value, dict) or step not in value:
            raise Unknown(".".join(reference))
        value = value[step]
    return value


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('parameters.model == "small"', True),
        ("parameters.model == 'large'", False),
        ("parameters.rows > 9", True),
        ("parameters.rows < 9.5", False),
        ('parameters.rows == "10.0"', True),
        ('parameters.model < "t"', True),
        ('steps.test-it.status != "Failed" and parameters.dry == false', True),
        ("not parameters.dry", True),
        ("parameters.dry or item.size >= 3", True),
        ('parameters.model in ["small", "medium"]', True),
        ('"c" in parameters.names', False),
        ('not (parameters.model == "small" and parameters.rows == 10)', False),
        ('"it\\"s" == "it\\"s"', True),
        ("true", True),
    ],
)
def test_conditions_hold_or_not(text: str, *, holds: bool) -> None:
    assert expressions.condition(text).holds(lookup) is holds


@pytest.mark.parametrize(
    "text",
    ["", "   ", "a ==", "== a", "(a", "a b", "a == b == c", "and", "a in [b", "a; b", "f(x)", "__import__('os')", "a."],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        expressions.condition(text)


@pytest.mark.parametrize("text", ["[" * 99_999, "(" * 99_999, "not " * 99_999, "a" + " and a" * 99_999])
def test_a_condition_without_end_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        expressions.condition(text)


def test_a_long_condition_within_bounds_can_be_asked() -> None:
    assert expressions.condition("true" + " and true" * 249).holds(lookup)


def test_beginnings_without_an_end_cost_no_more_than_other_texts() -> None:
    # a million letters: looked through from every beginning, this would take hours
    text = "{{ item.size }}" + "{{" * 500_000
    assert list(expressions.references(text)) == [("item", "size")]
    assert expressions.fill(text, lookup) == "3" + "{{" * 500_000


def test_a_condition_tells_what_it_refers_to() -> None:
    read = expressions.condition('steps.a.status == "Succeeded" or parameters.b in [item, "x"]')
    assert read.references == {("steps", "a", "status"), ("parameters", "b"), ("item",)}


def test_texts_are_filled_in_everywhere() -> None:
    template = {
        "args": ["--rows={{ parameters.rows }}", "{{parameters.model}}-{{item.name}}"],
        "env": [{"name": "N", "value": "{{ steps.test-it.outputs.n }}"}],
        "{{ parameters.model }}": 1,
    }
    assert expressions.fill(template, lookup) == {
        "args": ["--rows=10", "small-x"],
        "env": [{"name": "N", "value": "7"}],
        "small": 1,
    }


def test_a_text_that_is_nothing_but_a_reference_becomes_the_value() -> None:
    assert expressions.fill("{{ parameters.names }}", lookup) == ["a", "b"]
    assert expressions.fill("names: {{ parameters.names }}", lookup) == 'names: ["a","b"]'


def test_what_leads_to_nothing_is_named() -> None:
    with pytest.raises(Unknown, match=r"parameters\.nope"):
        expressions.fill("{{ parameters.nope }}", lookup)


@pytest.mark.parametrize("text", ["{{}}", "{{ a b }}", "{{ f(x) }}", "{{ a..b }}", "{{ .a }}"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        list(expressions.references({"x": [text]}))


@given(st.text(alphabet="ab.()[]'\"=!<> ,{}andornotin0123456789-", max_size=40))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        expressions.condition(text).holds(lambda _: "x")
    except ExpressionError:
        return


def test_deep_nesting_is_refused_and_does_no_harm() -> None:
    for text in ("(" * 100_000, "not " * 100_000 + "a"):
        with pytest.raises(ExpressionError):
            expressions.condition(text)
