"""Node selector terms: alternatives of label and name conditions."""

from typing import Any

import pytest

from rota.api import nodeselectors

ZONE = "topology.kubernetes.io/zone"


def _term(
    *expressions: tuple[str, str, list[str]], fields: tuple[tuple[str, str, list[str]], ...] = ()
) -> dict[str, Any]:
    def listed(items: tuple[tuple[str, str, list[str]], ...]) -> list[dict[str, Any]]:
        return [{"key": key, "operator": operator, "values": values} for key, operator, values in items]

    return {"matchExpressions": listed(expressions), "matchFields": listed(fields)}


@pytest.mark.parametrize(
    ("term", "selected"),
    [
        (_term((ZONE, "In", ["a", "b"])), True),
        (_term((ZONE, "NotIn", ["a"])), False),
        (_term((ZONE, "Exists", []), ("gpu", "DoesNotExist", [])), True),
        (_term(("cores", "Gt", ["15"])), True),
        (_term(("cores", "Gt", ["16"])), False),
        (_term(("cores", "Lt", ["17"])), True),
        (_term(("absent", "Lt", ["17"])), False),
        (_term((ZONE, "Gt", ["1"])), False),
        (_term(fields=(("metadata.name", "In", ["n1"]),)), True),
        (_term(fields=(("metadata.name", "NotIn", ["n1"]),)), False),
        (_term((ZONE, "In", ["a"]), fields=(("metadata.name", "In", ["n2"]),)), False),
        (_term(fields=(("spec.other", "NotIn", ["x"]),)), True),
        (_term(), False),
    ],
)
def test_a_node_is_selected_by_labels_and_name(term: dict[str, Any], selected: bool) -> None:
    selector = nodeselectors.compile_selector({"nodeSelectorTerms": [term]})
    assert selector.matches({ZONE: "a", "cores": "16"}, "n1") is selected


def test_one_matching_term_is_enough_even_beside_a_wrong_one() -> None:
    wrong, right = _term((ZONE, "Near", ["a"])), _term((ZONE, "In", ["a"]))
    selector = nodeselectors.compile_selector({"nodeSelectorTerms": [wrong, right]})
    assert selector.matches({ZONE: "a"}, "n1")
    assert not selector.matches({ZONE: "b"}, "n1")
    assert selector.error == (
        'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near": supported values: '
        '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    )


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (_term(("a", "Gt", ["x"])), "the value must be an integer"),
        (_term(("a", "In", [])), "values set can't be empty"),
        (_term(fields=(("metadata.name", "Exists", []),)), 'supported values: "In", "NotIn"'),
        (_term(fields=(("metadata.name", "In", ["a", "b"]),)), "must have one element"),
    ],
)
def test_what_is_wrong_with_a_term_is_said(term: dict[str, Any], message: str) -> None:
    selector = nodeselectors.compile_selector({"nodeSelectorTerms": [term]})
    assert message in (selector.error or "")
    assert not selector.matches({"a": "1"}, "n1")


def test_no_terms_select_no_node() -> None:
    assert not nodeselectors.compile_selector({}).matches({}, "n1")
