"""Devices of GPUs: what requests mean, which devices serve them, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import gpu_devices
from rota.api.gpu_devices import Demand

_FREE = st.lists(st.integers(0, 1000), max_size=8)
_DEMANDS = st.one_of(
    st.builds(Demand, st.just(1), st.integers(1, 999)), st.builds(Demand, st.integers(1, 8), st.just(1000))
)


@pytest.mark.parametrize(
    ("requests", "demand"),
    [
        ({"cpu": 1000}, Demand(0, 0)),
        ({"nvidia.com/gpu": 2}, Demand(2, 1000)),
        ({"rota.dev/gpu-milli": 250}, Demand(1, 250)),
        ({"rota.dev/gpu-milli": 1000}, Demand(1, 1000)),
    ],
)
def test_a_pod_asks_for_whole_gpus_or_for_thousandths_of_one(requests: dict[str, int], demand: Demand) -> None:
    assert gpu_devices.demand(requests) == demand
    assert gpu_devices.contradictory(requests) == ""


def test_requests_that_no_node_can_serve_are_named() -> None:
    assert "not for both" in gpu_devices.contradictory({"nvidia.com/gpu": 1, "rota.dev/gpu-milli": 1})
    assert "at most 1000" in gpu_devices.contradictory({"rota.dev/gpu-milli": 1001})


@given(free=_FREE, wanted=_DEMANDS)
def test_the_best_fit_is_never_short_and_no_device_with_enough_has_less_left(free: list[int], wanted: Demand) -> None:
    found = gpu_devices.best_fit(free, wanted)
    enough = [left for left in free if left >= wanted.milli]
    if found is None:
        assert len(enough) < wanted.gpus
        return
    assert gpu_devices.shortage(free, wanted, found) == ""
    assert sorted(free[device] for device in found) == sorted(enough)[: wanted.gpus]


@given(devices=st.sets(st.integers(0, 9999), max_size=8))
def test_an_annotation_is_read_as_it_was_written(devices: set[int]) -> None:
    numbers = tuple(sorted(devices))
    assert gpu_devices.parsed(gpu_devices.shown(numbers)) == numbers
    assert gpu_devices.of_annotations({gpu_devices.ANNOTATION: gpu_devices.shown(numbers)}) == numbers


@pytest.mark.parametrize("text", ["a", "-1", "1,,2", "0,0", "0x1", "1.0", "99999", " 1", "²"])
def test_an_annotation_that_is_no_list_of_different_numbers_names_no_device(text: str) -> None:
    assert gpu_devices.parsed(text) is None
    assert gpu_devices.of_annotations({gpu_devices.ANNOTATION: text}) == ()


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        ((0,), "2 different devices"),
        ((0, 0), "2 different devices"),
        ((0, 1), "device 1 has 400"),
        ((0, 7), "device 7 has 0"),
    ],
)
def test_a_shortage_names_the_device(devices: tuple[int, ...], told: str) -> None:
    assert told in gpu_devices.shortage([1000, 400, 1000], Demand(2, 1000), devices)
