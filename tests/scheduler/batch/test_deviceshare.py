"""deviceshare: each device of a node is counted, now and after terminating pods have ended."""

from typing import Any

import pytest
from tests.scheduler.batch.situations import group, node, pod, situation

from rota.scheduler.batch import conf, registry, scenarios, snapshots

MILLI = "rota.dev/gpu-milli"
WHOLE = "nvidia.com/gpu"
CONF = """
actions: "allocate"
tiers:
- plugins:
  - {name: gang}
  - {name: predicates}
  - name: deviceshare
    arguments: {deviceshare.GPUSharingEnable: true, deviceshare.GPUNumberEnable: true, MORE}
"""


def box(name: str, gpus: int) -> dict[str, Any]:
    return node(name, **{WHOLE: str(gpus), MILLI: str(1000 * gpus)})


def share(name: str, number: int, milli: int, **more: Any) -> dict[str, Any]:
    devices = more.pop("devices", None)
    annotations = {"rota.dev/gpu-devices": devices} if devices else None
    return pod(name, number, {"cpu": "100m", MILLI: str(milli)}, annotations=annotations, **more)


def decided(pods: list[dict[str, Any]], *, nodes: list[dict[str, Any]], least: int = 1, more: str = "") -> Any:
    groups = sorted({each["metadata"]["labels"]["app"] for each in pods})
    text = CONF.replace("MORE", more)
    listed = [
        group(each, least=least if each == "g" else 1, phase="Inqueue" if each == "g" else "Running") for each in groups
    ]
    return scenarios.decide(situation(text, nodes=nodes, podGroups=listed, pods=pods))


def test_free_parts_of_two_devices_are_not_one_device() -> None:
    running = [share("old", 0, 600, on="a", devices="0"), share("old", 1, 600, on="a", devices="1")]
    outcome = decided([*running, share("g", 0, 700)], nodes=[box("a", 2)])
    assert not outcome.binds
    assert "Insufficient free GPU devices" in outcome.conditions["default/g"].message


def test_a_gang_whose_shares_do_not_fit_the_devices_stays_out_as_a_whole() -> None:
    pods = [share("g", number, 600) for number in range(3)]
    assert not decided(pods, nodes=[box("a", 2)], least=3).binds
    assert len(decided(pods, nodes=[box("a", 2), box("b", 1)], least=3).binds) == 3


def test_a_place_that_will_be_free_is_held_on_the_device_of_the_terminating_pod() -> None:
    running = [share("old", 0, 800, on="a", devices="0", leaving=True), share("old", 1, 600, on="a", devices="1")]
    outcome = decided([*running, share("g", 0, 900)], nodes=[box("a", 2)])
    assert not outcome.binds
    assert outcome.pipelined == {"default/g-w-0": "a"}


def test_a_sum_that_fits_now_does_not_start_a_pod_on_a_device_that_is_still_in_use() -> None:
    # 200 + 600 thousandths are free; 700 of one device will be, when the first pod has ended.
    running = [share("old", 0, 800, on="a", devices="0", leaving=True), share("old", 1, 400, on="a", devices="1")]
    assert not decided([*running, share("g", 0, 700)], nodes=[box("a", 2)]).binds


def test_whole_gpus_need_untouched_devices() -> None:
    running = [share("old", 0, 100, on="a", devices="0")]
    wanted = pod("g", 0, {"cpu": "1", WHOLE: "2"})
    assert not decided([*running, wanted], nodes=[box("a", 2)]).binds
    assert decided([*running, wanted], nodes=[box("a", 2), box("b", 2)]).binds == {"default/g-w-0": "b"}


@pytest.mark.parametrize(("policy", "devices"), [("binpack", (1,)), ("spread", (0,))])
def test_the_policy_chooses_the_device(policy: str, devices: tuple[int, ...]) -> None:
    text = CONF.replace("MORE", f"deviceshare.SchedulePolicy: {policy}")
    state = snapshots.build(
        nodes=[box("a", 2)],
        pods=[share("old", 0, 500, on="a", devices="1"), share("g", 0, 300)],
        groups=[group("old", phase="Running"), group("g")],
        queues=situation("")["queues"],
    )
    session = registry.run(state, conf.parse(text, registry.KNOWN))
    (task,) = session.jobs["default/g"].members.values()
    assert task.node == "a"
    assert task.devices == devices


@pytest.mark.parametrize(("policy", "chosen"), [("binpack", "b"), ("spread", "a")])
def test_the_policy_and_its_weight_choose_the_node(policy: str, chosen: str) -> None:
    running = [share("old", 0, 500, on="b", devices="0")]
    more = f"deviceshare.SchedulePolicy: {policy}, deviceshare.ScheduleWeight: 10"
    outcome = decided([*running, share("g", 0, 300)], nodes=[box("a", 1), box("b", 1)], more=more)
    assert outcome.binds == {"default/g-w-0": chosen}


def test_a_contradictory_request_is_refused() -> None:
    outcome = decided([pod("g", 0, {MILLI: "100", WHOLE: "1"})], nodes=[box("a", 2)])
    assert "not for both" in outcome.conditions["default/g"].message
