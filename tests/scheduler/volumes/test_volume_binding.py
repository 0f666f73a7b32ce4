"""VolumeBinding: from a pod's claims to a plan per node, a reservation and a binding."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.args import UtilizationShapePoint, VolumeBindingArgs
from rota.scheduler.framework.events import Hint, HintFn, Resource
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status
from rota.scheduler.plugins.volume_binding import Attempt, VolumeBinding
from rota.scheduler.volumes import claim_binding, volume_claims
from rota.testing import volumes as make
from rota.testing.volumes import Document

ANY: Any = None
HOST = "kubernetes.io/hostname"
NODES = {name: {HOST: name, "rack": rack} for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"))}
LOCAL = make.storage_class("local", provisioner="kubernetes.io/no-provisioner")
FAST = make.storage_class("fast")


class Recorder:
    """A volume binder that writes nothing and remembers what it was asked to write."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]], float]] = []

    @property
    def volume_binder(self) -> "Recorder":
        return self

    async def bind_volumes(
        self,
        pod: PodInfo,
        node_name: str,
        *,
        volumes: Sequence[Mapping[str, Any]],
        claims: Sequence[Mapping[str, Any]],
        timeout_s: float,
    ) -> Status:
        self.asked.append((node_name, volumes, claims, timeout_s))
        return SUCCESS


def plugin(args: VolumeBindingArgs | None = None, handle: Any = None) -> VolumeBinding:
    return VolumeBinding(args or VolumeBindingArgs(), handle)


def reasons(on: Cluster, pod: PodInfo) -> dict[str, tuple[str, ...]]:
    """Why each refused node was refused."""
    found = make.verdicts(plugin(), CycleState(), pod, on)
    assert isinstance(found, dict)
    assert {status.code for status in found.values()} <= {Code.SUCCESS, Code.UNRESOLVABLE}
    return {name: status.reasons for name, status in found.items() if not status.ok}


def early(on: Cluster, pod: PodInfo) -> Status:
    found = make.verdicts(plugin(), CycleState(), pod, on)
    assert isinstance(found, PreFilterResult)
    return found.status


def chosen(on: Cluster, pod: PodInfo, node: str) -> dict[str, str]:
    """The volume that each claim gets on a node; "new" for one to be made."""
    state = CycleState()
    make.verdicts(plugin(), state, pod, on)
    plan = state.read("VolumeBinding", Attempt).plans[node]
    bound = {each.claim["metadata"]["name"]: each.volume["metadata"]["name"] for each in plan.bindings}
    return bound | {each.claim["metadata"]["name"]: "new" for each in plan.provisions}


# --- before any node ------------------------------------------------------------------------------------------------


def test_pods_without_claims_are_left_out_and_share_a_signature() -> None:
    pod, state = make.pod("pod", {"name": "x", "nfs": {"server": "s"}}), CycleState()
    assert plugin().pre_filter(state, pod, make.cluster(NODES)).status.skipped
    assert plugin().pre_score(state, pod, make.cluster(NODES), ANY).skipped
    assert plugin().signature(pod) == ()
    assert plugin().signature(make.pod("pod", *make.uses("data"))) is None


@pytest.mark.parametrize(
    ("documents", "code", "reason"),
    [
        ((), Code.UNRESOLVABLE, 'persistentvolumeclaim "data" not found'),
        (
            (make.claim("data", volume="gone", phase="Lost"),),
            Code.UNRESOLVABLE,
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
        ),
        ((make.claim("data"),), Code.UNRESOLVABLE, "pod has unbound immediate PersistentVolumeClaims"),
        (
            (make.claim("data", storage_class="now"), make.storage_class("now", late=False)),
            Code.UNRESOLVABLE,
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            (make.claim("data", storage_class="fast", spec={"volumeName": "wished"}), FAST),
            Code.UNRESOLVABLE,
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            (make.claim("data", storage_class="fast"), {**FAST, "volumeBindingMode": None}),
            Code.ERROR,
            'VolumeBindingMode not set for StorageClass "fast"',
        ),
    ],
)
def test_claims_that_cannot_be_used_end_the_attempt(documents: tuple[Document, ...], code: Code, reason: str) -> None:
    status = early(make.cluster(NODES, *documents), make.pod("pod", *make.uses("data")))
    assert (status.code, status.reasons) == (code, (reason,))


def test_a_claim_on_its_way_out_ends_the_attempt() -> None:
    claim = make.claim("data", volume="v")
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = early(make.cluster(NODES, claim), make.pod("pod", *make.uses("data")))
    assert status.reasons == ('persistentvolumeclaim "data" is being deleted',)


def test_an_ephemeral_volume_waits_for_its_own_claim() -> None:
    pod = make.pod("pod", {"name": "scratch", "ephemeral": {}})
    assert early(make.cluster(NODES), pod).reasons == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-scratch"',
    )
    stolen = make.cluster(NODES, make.claim("pod-scratch", volume="v", owner="uid-of-another"))
    assert early(stolen, pod).reasons == (
        "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)",
    )
    own = make.cluster(NODES, make.claim("pod-scratch", volume="v", owner=pod.uid), make.volume("v", node="a"))
    assert reasons(own, pod) == {"b": (claim_binding.NODE_CONFLICT,), "c": (claim_binding.NODE_CONFLICT,)}


# --- bound claims ---------------------------------------------------------------------------------------------------


def test_a_bound_volume_must_be_reachable() -> None:
    on = make.cluster(NODES, make.claim("data", volume="v"), make.volume("v", node="b"))
    refused = reasons(on, make.pod("pod", *make.uses("data")))
    assert refused == {"a": (claim_binding.NODE_CONFLICT,), "c": (claim_binding.NODE_CONFLICT,)}


def test_a_bound_volume_that_is_gone_refuses_every_node() -> None:
    on = make.cluster(NODES, make.claim("data", volume="v"))
    assert set(reasons(on, make.pod("pod", *make.uses("data"))).values()) == {(claim_binding.VOLUME_GONE,)}


# --- volumes that exist ---------------------------------------------------------------------------------------------


def test_a_late_claim_goes_where_a_volume_is() -> None:
    on = make.cluster(
        NODES, LOCAL, make.claim("data", storage_class="local"), make.volume("v", storage_class="local", node="b")
    )
    pod = make.pod("pod", *make.uses("data"))
    assert reasons(on, pod) == {"a": (claim_binding.NO_VOLUME,), "c": (claim_binding.NO_VOLUME,)}
    assert chosen(on, pod, "b") == {"data": "v"}


def test_the_smallest_volume_that_is_large_enough_is_taken() -> None:
    sizes = {"small": "4Gi", "fitting": "5Gi", "large": "100Gi"}
    volumes = [make.volume(name, size=size, storage_class="local") for name, size in sizes.items()]
    on = make.cluster(NODES, LOCAL, make.claim("data", size="5Gi", storage_class="local"), *reversed(volumes))
    assert chosen(on, make.pod("pod", *make.uses("data")), "a") == {"data": "fitting"}


def test_two_claims_of_a_pod_take_two_volumes_the_smaller_claim_first() -> None:
    volumes = [make.volume(f"v{size}", size=f"{size}Gi", storage_class="local", node="a") for size in (2, 5)]
    claims_wanted = [make.claim("big", size="1500Mi", storage_class="local"), make.claim("tiny", storage_class="local")]
    on = make.cluster(NODES, LOCAL, *claims_wanted, *volumes)
    pod = make.pod("pod", *make.uses("big", "tiny"))
    assert chosen(on, pod, "a") == {"tiny": "v2", "big": "v5"}
    third = make.cluster(NODES, LOCAL, *claims_wanted, make.claim("more", storage_class="local"), *volumes)
    assert "a" in reasons(third, make.pod("pod", *make.uses("big", "tiny", "more")))


@pytest.mark.parametrize(
    "unsuitable",
    [
        make.volume("v", storage_class="other"),
        make.volume("v", storage_class="local", size="512Mi"),
        make.volume("v", storage_class="local", phase="Released"),
        make.volume("v", storage_class="local", modes=("ReadOnlyMany",)),
        make.volume("v", storage_class="local", spec={"volumeMode": "Block"}),
        make.volume("v", storage_class="local", spec={"volumeAttributesClassName": "gold"}),
        make.volume("v", storage_class="local", spec={"claimRef": {"namespace": "default", "name": "other"}}),
    ],
)
def test_volumes_that_do_not_suit_are_passed_over(unsuitable: Document) -> None:
    on = make.cluster(NODES, LOCAL, make.claim("data", storage_class="local"), unsuitable)
    assert set(reasons(on, make.pod("pod", *make.uses("data"))).values()) == {(claim_binding.NO_VOLUME,)}


def test_a_selector_picks_volumes_by_label() -> None:
    claim = make.claim("data", storage_class="local", spec={"selector": {"matchLabels": {"tier": "gold"}}})
    gold = make.volume("gold", size="9Gi", storage_class="local", labels={"tier": "gold"})
    on = make.cluster(NODES, LOCAL, claim, make.volume("plain", storage_class="local"), gold)
    assert chosen(on, make.pod("pod", *make.uses("data")), "a") == {"data": "gold"}


def test_a_volume_meant_for_the_claim_is_taken_or_none() -> None:
    reserved = {"claimRef": {"namespace": "default", "name": "data"}}
    mine = make.volume("mine", size="50Gi", storage_class="local", node="b", phase="Pending", spec=reserved)
    on = make.cluster(
        NODES, LOCAL, make.claim("data", storage_class="local"), make.volume("v", storage_class="local"), mine
    )
    pod = make.pod("pod", *make.uses("data"))
    assert chosen(on, pod, "b") == {"data": "mine"}
    assert set(reasons(on, pod)) == {"a", "c"}


def test_node_affinity_of_any_form_is_honoured() -> None:
    not_r1 = {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r1"]}]}
    on_a = {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [not_r1, on_a]}}}
    on = make.cluster(
        NODES, LOCAL, make.claim("data", storage_class="local"), make.volume("v", storage_class="local", spec=affinity)
    )
    assert set(reasons(on, make.pod("pod", *make.uses("data")))) == {"b"}


# --- volumes to be made ---------------------------------------------------------------------------------------------


def test_what_does_not_exist_is_made_where_the_class_may() -> None:
    topology = [{"matchLabelExpressions": [{"key": "rack", "values": ["r2", "r3"]}]}]
    on = make.cluster(
        NODES, make.storage_class("fast", allowedTopologies=topology), make.claim("data", storage_class="fast")
    )
    pod = make.pod("pod", *make.uses("data"))
    assert set(reasons(on, pod)) == {"a", "b"}
    assert chosen(on, pod, "c") == {"data": "new"}


def test_an_existing_volume_is_preferred_to_a_new_one() -> None:
    on = make.cluster(
        NODES, FAST, make.claim("data", storage_class="fast"), make.volume("v", storage_class="fast", node="a")
    )
    pod = make.pod("pod", *make.uses("data"))
    assert chosen(on, pod, "a") == {"data": "v"}
    assert chosen(on, pod, "b") == {"data": "new"}


def test_a_claim_that_is_being_provisioned_stays_with_its_node() -> None:
    claim = make.claim("data", storage_class="fast", annotations={volume_claims.SELECTED_NODE: "b"})
    on = make.cluster(NODES, FAST, claim, make.volume("v", storage_class="fast"))
    pod = make.pod("pod", *make.uses("data"))
    assert reasons(on, pod) == {"a": (claim_binding.NO_VOLUME,), "c": (claim_binding.NO_VOLUME,)}
    assert chosen(on, pod, "b") == {"data": "new"}


def capacity(size: str, rack: str | None, *, name: str = "pool", **fields: Any) -> Document:
    topology = {} if rack is None else {"nodeTopology": {"matchLabels": {"rack": rack}}}
    meta = {"name": name, "namespace": "storage"}
    return {
        "kind": "CSIStorageCapacity",
        "metadata": meta,
        "storageClassName": "fast",
        "capacity": size,
        **topology,
        **fields,
    }


REPORTS = {"kind": "CSIDriver", "metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}


@pytest.mark.parametrize(
    ("pools", "refused"),
    [
        ((capacity("10Gi", "r1"),), {"c"}),
        ((capacity("512Mi", "r1"),), {"a", "b", "c"}),
        ((capacity("10Gi", "r1", maximumVolumeSize="512Mi"),), {"a", "b", "c"}),
        ((capacity("10Gi", None),), {"a", "b", "c"}),
        ((capacity("10Gi", "r1", storageClassName="other"),), {"a", "b", "c"}),
        ((capacity("1Gi", "r1"), capacity("1Gi", "r2", name="second")), set()),
    ],
)
def test_free_storage_must_be_within_reach_where_the_driver_reports_it(
    pools: tuple[Document, ...], refused: set[str]
) -> None:
    on = make.cluster(NODES, FAST, REPORTS, make.claim("data", storage_class="fast"), *pools)
    found = reasons(on, make.pod("pod", *make.uses("data")))
    assert set(found) == refused
    assert set(found.values()) <= {(claim_binding.NO_SPACE,)}


def test_a_driver_that_reports_nothing_is_believed_to_have_room() -> None:
    silent = {**REPORTS, "spec": {"storageCapacity": False}}
    on = make.cluster(NODES, FAST, silent, make.claim("data", storage_class="fast"))
    assert reasons(on, make.pod("pod", *make.uses("data"))) == {}


# --- scores ---------------------------------------------------------------------------------------------------------


def score(on: Cluster, pod: PodInfo, node: str, args: VolumeBindingArgs | None = None) -> int:
    scorer, state = plugin(args), CycleState()
    make.verdicts(scorer, state, pod, on)
    assert scorer.pre_score(state, pod, on, ANY).ok
    return scorer.score(state, pod, on.by_name[node])


@pytest.mark.parametrize(("size", "expected"), [("1Gi", 0), ("2Gi", 50), ("4Gi", 75), ("3Gi", 67)])
def test_a_volume_filled_less_scores_higher(size: str, expected: int) -> None:
    on = make.cluster(
        NODES, LOCAL, make.claim("data", storage_class="local"), make.volume("v", size=size, storage_class="local")
    )
    assert score(on, make.pod("pod", *make.uses("data")), "a") == expected


def test_the_shape_decides() -> None:
    rising = VolumeBindingArgs(
        shape=(UtilizationShapePoint(utilization=10, score=0), UtilizationShapePoint(utilization=90, score=10))
    )
    on = make.cluster(
        NODES, LOCAL, make.claim("data", storage_class="local"), make.volume("v", size="2Gi", storage_class="local")
    )
    pod = make.pod("pod", *make.uses("data"))
    assert score(on, pod, "a", rising) == 50
    full = make.cluster(
        NODES, LOCAL, make.claim("data", storage_class="local"), make.volume("v", storage_class="local")
    )
    assert score(full, pod, "a", rising) == 100


def test_pools_are_scored_when_volumes_are_made_and_count_once() -> None:
    on = make.cluster(
        NODES,
        FAST,
        REPORTS,
        capacity("4Gi", "r1"),
        make.claim("one", storage_class="fast"),
        make.claim("two", storage_class="fast"),
    )
    assert score(on, make.pod("pod", *make.uses("one")), "a") == 75
    assert score(on, make.pod("pod", *make.uses("one", "two")), "a") == 50


def test_without_numbers_the_score_is_zero() -> None:
    on = make.cluster(NODES, FAST, make.claim("data", storage_class="fast"))
    assert score(on, make.pod("pod", *make.uses("data")), "a") == 0


# --- reservation and binding ----------------------------------------------------------------------------------------


def reserved(one: VolumeBinding, on: Cluster, pod: PodInfo, node: str) -> CycleState:
    state = CycleState()
    make.verdicts(one, state, pod, on)
    assert one.reserve(state, pod, node).ok
    return state


def test_a_reserved_volume_is_taken_for_other_pods_until_given_back() -> None:
    wanted = [make.claim("data", storage_class="local"), make.claim("more", storage_class="local")]
    on = make.cluster(NODES, LOCAL, *wanted, make.volume("v", storage_class="local"))
    one, first, second = plugin(), make.pod("one", *make.uses("data")), make.pod("two", *make.uses("more"))
    state = reserved(one, on, first, "a")
    blocked = make.verdicts(one, CycleState(), second, on)
    assert isinstance(blocked, dict)
    assert not any(status.ok for status in blocked.values())
    one.unreserve(state, first, "a")
    free = make.verdicts(one, CycleState(), second, on)
    assert isinstance(free, dict)
    assert all(status.ok for status in free.values())


def test_a_newer_volume_replaces_what_was_assumed_about_it() -> None:
    wanted = [make.claim("data", storage_class="local"), make.claim("more", storage_class="local")]
    on = make.cluster(NODES, LOCAL, *wanted, make.volume("v", storage_class="local"))
    one = plugin()
    reserved(one, on, make.pod("one", *make.uses("data")), "a")
    on.catalog.put("PersistentVolume", make.volume("v", storage_class="local"))
    found = make.verdicts(one, CycleState(), make.pod("two", *make.uses("more")), on)
    assert isinstance(found, dict)
    assert all(status.ok for status in found.values())


def test_unreserving_what_was_never_reserved_is_harmless() -> None:
    plugin().unreserve(CycleState(), make.pod("pod", *make.uses("data")), "a")


async def test_prebind_has_the_volume_and_the_claim_written() -> None:
    on = make.cluster(
        NODES,
        FAST,
        LOCAL,
        make.claim("old", storage_class="local"),
        make.claim("new", storage_class="fast"),
        make.volume("v", storage_class="local"),
    )
    recorder, pod = Recorder(), make.pod("pod", *make.uses("old", "new"))
    one = plugin(VolumeBindingArgs(bind_timeout_seconds=30), recorder)
    state = reserved(one, on, pod, "b")
    assert one.pre_bind_plan(state, pod, "b").status.ok
    assert (await one.pre_bind(state, pod, "b")).ok
    ((node, volumes, marked, timeout),) = recorder.asked
    assert (node, timeout) == ("b", 30.0)
    (volume,) = volumes
    assert volume["spec"]["claimRef"]["name"] == "old"
    assert volume["spec"]["claimRef"]["uid"] == "uid-old"
    assert volume["metadata"]["annotations"] == {volume_claims.BOUND_BY_CONTROLLER: "yes"}
    (claim,) = marked
    assert claim["metadata"]["annotations"] == {volume_claims.SELECTED_NODE: "b"}


def test_objects_of_the_cluster_are_never_changed() -> None:
    document = make.volume("v", storage_class="local")
    on = make.cluster(NODES, LOCAL, make.claim("data", storage_class="local"), document)
    reserved(plugin(), on, make.pod("pod", *make.uses("data")), "a")
    assert "claimRef" not in document["spec"]


def test_a_pod_whose_claims_are_bound_has_nothing_to_prebind() -> None:
    on = make.cluster(NODES, make.claim("data", volume="v"), make.volume("v"))
    one, pod = plugin(), make.pod("pod", *make.uses("data"))
    state = reserved(one, on, pod, "a")
    assert one.pre_bind_plan(state, pod, "a").status.skipped
    assert one.pre_bind_plan(CycleState(), make.pod(), "a").status.skipped


# --- waking up ------------------------------------------------------------------------------------------------------


def hint(resource: Resource) -> HintFn:
    (found,) = [each.hint for each in plugin().events_to_register() if each.event.resource == resource]
    assert found is not None
    return found


def test_hints_wake_pods_for_what_concerns_them() -> None:
    pod = make.pod("pod", *make.uses("data"), {"name": "x", "csi": {"driver": "csi.example.com"}})
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM)(pod, None, make.claim("data")) is Hint.QUEUE
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM)(pod, None, make.claim("more")) is Hint.SKIP
    moved = make.storage_class("fast", allowedTopologies=[{"matchLabelExpressions": []}])
    assert hint(Resource.STORAGE_CLASS)(pod, None, FAST) is Hint.QUEUE
    assert hint(Resource.STORAGE_CLASS)(pod, FAST, moved) is Hint.QUEUE
    assert hint(Resource.STORAGE_CLASS)(pod, FAST, FAST) is Hint.SKIP
    assert hint(Resource.CSI_STORAGE_CAPACITY)(pod, capacity("1Gi", "r1"), capacity("2Gi", "r1")) is Hint.QUEUE
    assert hint(Resource.CSI_STORAGE_CAPACITY)(pod, capacity("2Gi", "r1"), capacity("1Gi", "r1")) is Hint.SKIP
    assert hint(Resource.CSI_STORAGE_CAPACITY)(pod, None, capacity("1Gi", "r1")) is Hint.QUEUE
    silent = {**REPORTS, "spec": {}}
    assert hint(Resource.CSI_DRIVER)(pod, REPORTS, silent) is Hint.QUEUE
    assert hint(Resource.CSI_DRIVER)(pod, silent, REPORTS) is Hint.SKIP
    node = {"kind": "CSINode", "metadata": {"name": "a"}}
    annotated = {"name": "a", "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "x"}}
    migrated = {"kind": "CSINode", "metadata": annotated}
    assert hint(Resource.CSI_NODE)(pod, None, node) is Hint.QUEUE
    assert hint(Resource.CSI_NODE)(pod, node, migrated) is Hint.QUEUE
    assert hint(Resource.CSI_NODE)(pod, node, node) is Hint.SKIP
