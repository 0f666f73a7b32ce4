"""What spot machines save."""

from typing import Any

import pytest

from rota.spot import prices
from rota.spot.node_readings import Capacity

TYPE = "node.kubernetes.io/instance-type"


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def saved(*nodes: tuple[dict[str, Any], Capacity]) -> prices.Savings:
    return prices.savings(nodes)


def test_a_spot_machine_saves_what_its_own_label_says_it_would_cost() -> None:
    found = saved((node("a", **{"rota.dev/price": "0.1", prices.OTHERWISE: "0.4"}), Capacity.SPOT))
    assert found.per_hour == pytest.approx(0.3)
    assert found.unknown == 0


def test_machines_of_the_same_type_that_stay_tell_it_otherwise() -> None:
    found = saved(
        (node("a", **{"rota.dev/price": "1", TYPE: "big"}), Capacity.SPOT),
        (node("b", **{"rota.dev/price": "1", TYPE: "small"}), Capacity.SPOT),
        (node("c", **{"rota.dev/price": "3", TYPE: "big"}), Capacity.ON_DEMAND),
        (node("d", **{"rota.dev/price": "5", TYPE: "big"}), Capacity.UNKNOWN),
    )
    assert (found.per_hour, dict(found.nodes), found.unknown) == (3, {"a": 3}, 1)


@pytest.mark.parametrize("text", ["", "cheap", "-1", "nan", "inf"])
def test_what_is_no_price_is_unknown(text: str) -> None:
    assert prices.of(node("a", **{"rota.dev/price": text})) is None
    assert saved((node("a", **{"rota.dev/price": text, prices.OTHERWISE: "1"}), Capacity.SPOT)).unknown == 1


def test_a_spot_machine_that_is_dearer_saves_less_than_nothing() -> None:
    found = saved((node("a", **{"rota.dev/price": "2", prices.OTHERWISE: "1"}), Capacity.SPOT))
    assert found.per_hour == -1
