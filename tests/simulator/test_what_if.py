"""Questions about a cluster: that answers are those of the scheduler, and what every kind of change does."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.gpu_devices import ANNOTATION, SHARE
from rota.client.pods import PODS
from rota.kit.errors import UserError
from rota.scheduler.plugin_registry import builtin, third_party
from rota.scheduler.snapshot import cluster_dump, scenarios
from rota.simulator import cluster_changes, clusters, traces, what_if
from rota.simulator.cluster_changes import Changes
from rota.simulator.engine import Engine
from rota.simulator.traces import Trace
from rota.simulator.what_if import Answer, Cause, Question
from rota.testing import manifests, schedulers
from rota.testing.clusters import make_pod

PRIORITY_CLASSES = ("scheduling.k8s.io", "v1", "priorityclasses")
STOCK = third_party.default(builtin.registry())
PACKING = schedulers.configured(
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: "
    "{type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}]"
)


def pod(
    name: str, cpu: str, *, on: str = "", owner: str = "ReplicaSet", namespace: str = "default", **spec: Any
) -> Any:
    """A pod, of a controller unless `owner` is empty."""
    made = clusters.pod(f"cpu={cpu}", name=name, namespace=namespace)
    made["spec"].update(spec, **({"nodeName": on} if on else {}))
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "x", "uid": "x", "controller": True}
        made["metadata"]["ownerReferences"] = [reference]
    return made


def cluster_of(*pods: Any, nodes: str = "2xcpu=4") -> Trace:
    found = [*({"kind": "Node", **node} for node in clusters.nodes([nodes])), *pods]
    return traces.from_objects(((str(number), each) for number, each in enumerate(found)), "made")


def ask(cluster: Trace, *, counted: Any = None, most: int = 1000, loaded: Any = STOCK, **changes: Any) -> Answer:
    return what_if.answer(
        Question(
            cluster=cluster,
            loaded=loaded,
            baseline=STOCK,
            changes=Changes(**changes),
            counted=counted,
            most=most,
        )
    )


def told(fates: Any) -> list[tuple[str, str, str]]:
    return [(each.pod, each.source, each.target) for each in fates]


def test_new_pods_fit_where_there_is_room_and_others_wait_with_the_reason() -> None:
    answer = ask(cluster_of(pod("a", "3", on="node-0")), pods=[pod("new", "4"), pod("more", "4")])
    assert told(answer.placed()) == [("default/new", "", "node-1")]
    (waits,) = answer.waiting()
    assert (waits.pod, waits.cause, waits.unchanged) == ("default/more", Cause.NEW, False)
    assert "2 Insufficient cpu" in waits.why
    assert answer.fits is False
    assert answer.allocated == {"cpu": (0.375, 0.875)}


def test_pods_that_would_be_preempted_are_named_with_what_becomes_of_them() -> None:
    cluster = cluster_of(
        pod("small", "1", on="node-0"),
        pod("bare", "2", on="node-0", owner=""),
        pod("other", "3", on="node-1", priority=9),
    )
    answer = ask(cluster, pods=[pod("important", "4", priority=9)])
    assert answer.fits is True
    assert told(answer.placed()) == [("default/important", "", "node-0")]
    by_name = {each.pod: each for each in answer.preempted()}
    assert {each.preemptor for each in by_name.values()} == {"default/important"}
    assert by_name["default/small"].target == "node-1"
    assert by_name["default/bare"].why == cluster_changes.NO_CONTROLLER


def test_victims_are_those_that_were_started_last() -> None:
    old, young = pod("old", "4", on="node-0"), pod("young", "4", on="node-1")
    old["status"], young["status"] = {"startTime": "2026-01-01T00:00:00Z"}, {"startTime": "2026-02-01T00:00:00Z"}
    for pods in ((old, young), (young, old)):
        answer = ask(cluster_of(*pods), pods=[pod("important", "4", priority=9)])
        assert [each.pod for each in answer.preempted()] == ["default/young"]


def test_the_pods_of_a_drained_node_move_wait_stay_or_are_lost() -> None:
    cluster = cluster_of(
        pod("moves", "2", on="node-0"),
        pod("waits", "1", on="node-0"),
        pod("log", "100m", on="node-0", owner="DaemonSet"),
        pod("bare", "100m", on="node-0", owner=""),
        pod("full", "2", on="node-1"),
    )
    answer = ask(cluster, drained=["node-0"])
    assert told(answer.moves()) == [("default/moves", "node-0", "node-1")]
    assert told(answer.waiting()) == [("default/waits", "node-0", "")]
    assert not any(each.unchanged for each in answer.fates)
    assert [each.pod for each in answer.lost] == ["default/bare"]
    assert [each.pod for each in answer.stays] == ["default/log"]
    assert answer.nodes == 1
    with pytest.raises(UserError, match='no node "node-7"'):
        ask(cluster, drained=["node-7"])


def test_budgets_that_slow_a_drain_down_are_named() -> None:
    web = [pod(f"web-{number}", "1", on="node-0") for number in range(2)]
    for each in web:
        each["metadata"]["labels"] = {"app": "web"}
    budget = manifests.budget("guard", min_available=1, app="web")
    for allowed, notes in (
        (1, ["the drain waits for budget default/guard: it allows 1 of 2 evictions at once"]),
        (2, []),
    ):
        budget["status"] = {"disruptionsAllowed": allowed}
        assert list(ask(cluster_of(*web, budget), drained=["node-0"]).notes) == notes
    assert list(ask(cluster_of(*web, budget), drained=["node-1"]).notes) == []


def test_more_nodes_take_pods_that_wait() -> None:
    cluster = cluster_of(pod("a", "3", on="node-0"), pod("b", "3", on="node-1"), pod("waits", "4"))
    assert [each.unchanged for each in ask(cluster).waiting()] == [True]
    added = cluster_changes.renamed(clusters.nodes(["1xcpu=8"]), ["node-0", "node-1"])
    (placed,) = ask(cluster, nodes=added).placed()
    assert (placed.cause, placed.target, placed.unchanged) == (Cause.PENDING, "node-0-2", False)


def test_a_pool_that_grows_has_new_nodes_like_the_old_ones() -> None:
    cluster = cluster_of(nodes="gpu:2xcpu=4,zone=a")
    tainted = {"spec": {"taints": [{"key": "node.kubernetes.io/unreachable"}, {"key": "own"}], "unschedulable": True}}
    cluster.nodes[0].update(tainted)  # type: ignore[attr-defined]
    copies = cluster_changes.copies_of_pool(cluster, {"pool": "gpu"}, 3)
    assert [each["metadata"]["name"] for each in copies] == [
        "gpu-0-copy-1",
        "gpu-1-copy-1",
        "gpu-0-copy-2",
        "gpu-1-copy-2",
    ]
    assert copies[0]["metadata"]["labels"]["kubernetes.io/hostname"] == "gpu-0-copy-1"
    assert copies[0]["spec"] == {"taints": [{"key": "own"}]}
    with pytest.raises(UserError, match="no node of made has the label pool=cpu"):
        cluster_changes.copies_of_pool(cluster, {"pool": "cpu"}, 2)


def test_another_configuration_places_pods_elsewhere() -> None:
    cluster = cluster_of(pod("a", "1", on="node-0"), pod("b", "1", on="node-1"))
    assert told(ask(cluster, reschedule=True).moves()) == []
    packed = ask(cluster, reschedule=True, loaded=PACKING)
    assert told(packed.moves()) == [("default/b", "node-1", "node-0")]
    assert told(ask(cluster, loaded=PACKING, pods=[pod("new", "1")]).placed()) == [("default/new", "", "node-0")]


def test_a_count_neither_preempts_nor_goes_beyond_its_limit() -> None:
    cluster = cluster_of(pod("a", "1", on="node-0", priority=-5))
    count = ask(cluster, counted=pod("shape", "2")).count
    assert count is not None
    assert (count.number, count.at_least) == (3, False)
    assert "Insufficient cpu" in count.why
    limited = ask(cluster, counted=pod("shape", "2"), most=2).count
    assert limited is not None
    assert (limited.number, limited.at_least) == (2, True)


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    there=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=6),
    size=st.integers(1, 5),
)
def test_a_count_is_the_room_on_all_nodes(sizes: list[int], there: list[tuple[int, int]], size: int) -> None:
    free = list(sizes)
    pods = []
    for number, (place, cpu) in enumerate(there):
        if place < len(free) and free[place] >= cpu:
            free[place] -= cpu
            pods.append(pod(f"p{number}", str(cpu), on=f"node-{place}"))
    nodes = [node for number, cpu in enumerate(sizes) for node in clusters.nodes([f"{number + 1}xcpu={cpu}"])[-1:]]
    found = [*({"kind": "Node", **node} for node in nodes), *pods]
    cluster = traces.from_objects(((str(number), each) for number, each in enumerate(found)), "made")
    count = ask(cluster, counted=pod("shape", str(size))).count
    assert count is not None
    assert count.number == sum(each // size for each in free)


def test_pods_of_the_same_name_in_two_namespaces_are_two_pods() -> None:
    one, other = pod("web-0", "1", namespace="a"), pod("web-0", "1", namespace="b")
    one["metadata"]["uid"], other["metadata"]["uid"] = "1", "2"
    assert sorted(each.pod for each in ask(cluster_of(one, other)).placed()) == ["a/web-0", "b/web-0"]


def test_pods_that_run_keep_their_gpu_devices() -> None:
    shared = schedulers.configured("profiles: [{plugins: {multiPoint: {enabled: [{name: GpuShare}]}}}]")

    def share(name: str, *, on: str = "", device: str = "") -> Any:
        made = pod(name, "1", on=on)
        made["spec"]["containers"][0]["resources"]["requests"][SHARE] = "600"
        made["metadata"]["annotations"] = {ANNOTATION: device} if device else {}
        return made

    nodes = f"1xcpu=8,gpu=2,{SHARE}=2000"
    both = cluster_of(share("a", on="node-0", device="0"), share("b", on="node-0", device="1"), nodes=nodes)
    assert ask(both, loaded=shared, pods=[share("new")]).fits is False
    one = cluster_of(share("a", on="node-0", device="1"), nodes=nodes)
    assert ask(one, loaded=shared, pods=[share("new")]).fits is True
    engine = Engine(one, shared, seed=1)
    engine.run()
    assert [each.gpu_devices for each in engine.placed()] == [(1,)]


def test_pods_that_are_going_do_not_wait_and_pods_of_missing_nodes_take_nothing() -> None:
    going = pod("going", "1")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answer = ask(cluster_of(going, pod("ghost", "2", on="gone"), pod("a", "2", on="node-0")))
    assert list(answer.fates) == []
    assert answer.allocated == {"cpu": (0.25, 0.25)}


def test_pods_that_no_profile_is_for_and_gated_pods_wait_with_these_reasons() -> None:
    answer = ask(
        cluster_of(), pods=[pod("a", "1", schedulerName="other"), pod("b", "1", schedulingGates=[{"name": "quota"}])]
    )
    assert [each.why for each in answer.waiting()] == [
        'no profile of the configuration is for schedulerName "other"',
        "it has scheduling gates: quota",
    ]


def test_a_workload_has_the_pods_of_its_template() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", "1")["spec"]}
    workload = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": template}}
    workload["spec"]["replicas"] = 2  # type: ignore[index]
    found = [each for _, each in cluster_changes.pods_of([("web.yaml", workload)])]
    assert [each["metadata"] for each in found] == [
        {"labels": {"app": "web"}, "namespace": "shop", "name": f"web-{number}"} for number in range(2)
    ]
    with pytest.raises(UserError, match=r"web\.yaml: Service has no pods"):
        cluster_changes.pods_of([("web.yaml", {"kind": "Service"})])


async def test_the_answer_is_what_the_running_scheduler_does_afterwards() -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 5
    }  # fmt: skip
    new: dict[str, dict[str, Any]] = {
        "fits": {"cpu": "1500m"},
        "waits": {"cpu": "9"},
        "important": {"cpu": "4500m", "priorityClassName": "urgent"},
    }
    async with schedulers.cluster() as cluster:
        await cluster.client.create(PRIORITY_CLASSES, urgent)
        for number, cpu in enumerate(("2", "3", "5")):
            await cluster.add_node(f"n{number}", cpu=cpu)
        async with cluster.scheduling():
            for name, cpu in (("a", "2"), ("b", "2"), ("c", "1")):
                await cluster.add_pod(name, cpu=cpu)
                await cluster.bound(name)
        lines = (await cluster_dump.take(cluster.client)).lines
        now = traces.from_objects(cluster_dump.objects_of(enumerate(lines), name="now"), "now")
        pods = [scenarios.checked_incoming(make_pod(name, **about), [urgent], path=name) for name, about in new.items()]
        answer = ask(now, pods=pods)
        nodes = {each.pod.removeprefix("default/"): each.target for each in answer.placed()}
        for name, about in new.items():
            await cluster.add_pod(name, **about)
        async with cluster.scheduling():
            assert await cluster.bound("fits") == nodes["fits"]
            assert (await cluster.refused("waits"))["message"] in answer.waiting()[0].why
            await cluster.refused("important")
            assert (await cluster.pod("important"))["status"]["nominatedNodeName"] == nodes["important"]
            gone = {f"default/{name}" for name in "abc" if not await _stays(cluster, name)}
    assert gone
    assert gone == {each.pod for each in answer.preempted()}


async def _stays(cluster: schedulers.SchedulingCluster, name: str) -> bool:
    pods = (await cluster.client.list(PODS)).items
    found = [each for each in pods if each["metadata"]["name"] == name]
    return bool(found) and "deletionTimestamp" not in found[0]["metadata"]
