"""Why a group waits: the first obstacle, with figures, and what would let it start."""

from typing import Any

from tests.scheduler.batch.situations import group, node, pod, situation

from rota.scheduler.batch import conf, registry, snapshots
from rota.scheduler.batch.times import seconds
from rota.scheduler.batch.wait_reasons import WaitReasons

GPU = "nvidia.com/gpu"
CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: SHARES}]
"""


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"weight": 1, **spec}, "status": {"state": "Open"}}


def reason(key: str, *, shares: str = "proportion", **sections: Any) -> str:
    given = situation("", **sections)
    state = snapshots.build(
        nodes=given["nodes"],
        pods=given["pods"],
        groups=given["podGroups"],
        queues=given["queues"],
        now=seconds(given["now"]),
    )
    session = registry.run(state, conf.parse(CONF.replace("SHARES", shares), registry.KNOWN))
    return WaitReasons(session).of(session.jobs[f"default/{key}"])


def gang(name: str, pods: int, *, on: str | None = None, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    asked = {"cpu": "1", GPU: str(gpus)}
    return {
        "group": group(name, least=pods, phase="Running" if on else "Inqueue", **spec),
        "pods": [pod(name, number, asked, on=on) for number in range(pods)],
    }


def parts(*gangs: dict[str, Any]) -> dict[str, Any]:
    return {"podGroups": [one["group"] for one in gangs], "pods": [each for one in gangs for each in one["pods"]]}


def test_a_queue_at_its_deserved_share_says_what_is_missing_and_which_end_would_help() -> None:
    # 16 GPUs for two queues that both want more than half: each deserves eight.
    said = reason(
        "big",
        nodes=[node("a", **{GPU: "16", "cpu": "64"})],
        queues=[queue("a"), queue("b")],
        **parts(
            gang("old", 5, on="a", queue="a"),
            gang("big", 6, queue="a"),
            gang("other", 6, on="a", queue="b"),
            gang("more", 9, queue="b"),
        ),
    )
    assert said == (
        "waits in queue a for 3 more nvidia.com/gpu: 5 of 8 deserved in use; could start if default/old ended"
    )


def test_a_group_that_can_never_have_enough_names_the_limit() -> None:
    said = reason(
        "big",
        shares="capacity",
        nodes=[node("a", **{GPU: "16", "cpu": "64"})],
        queues=[queue("a", capability={"cpu": "64", GPU: "4"})],
        **parts(gang("big", 6, queue="a")),
    )
    assert said == (
        "waits in queue a for 2 more nvidia.com/gpu: 0 of 4 in use; "
        "could start if the limit of queue a were 6 nvidia.com/gpu"
    )


def test_a_group_that_fits_its_queue_names_what_the_cluster_lacks() -> None:
    said = reason(
        "big",
        shares="capacity",
        nodes=[node("a", **{GPU: "8", "cpu": "64"})],
        queues=[queue("a"), queue("b")],
        **parts(gang("old", 5, on="a", queue="b"), gang("big", 4, queue="a")),
    )
    assert said == "waits for 1 more nvidia.com/gpu: 3 idle of 4 needed; could start if default/old ended"


def test_a_pod_that_is_too_large_for_every_node_is_named() -> None:
    said = reason(
        "big",
        shares="capacity",
        nodes=[node("a", **{GPU: "2"}), node("b", **{GPU: "2"})],
        queues=[queue("a")],
        **parts(gang("big", 1, gpus=3, queue="a")),
    )
    assert said == "waits for a node with 3 nvidia.com/gpu idle: the most on one node is 2"


def test_in_a_strict_queue_the_first_group_is_named() -> None:
    first, second = gang("first", 4, queue="a"), gang("second", 1, queue="a")
    first["group"]["metadata"]["creationTimestamp"] = "2026-05-01T09:00:00Z"
    given = {
        "shares": "capacity",
        "nodes": [node("a", **{GPU: "2"})],
        "queues": [queue("a", dequeueStrategy="fifo")],
        **parts(first, second),
    }
    assert reason("second", **given) == "waits behind default/first, the first in strict queue a"
    assert reason("first", **given).startswith("waits for 2 more nvidia.com/gpu")


def test_a_group_that_starts_has_no_reason() -> None:
    assert reason("g", nodes=[node("a", **{GPU: "2"})], queues=[queue("a")], **parts(gang("g", 2, queue="a"))) == ""
