"""NodeVolumeLimits: how many volumes of a driver a node can hold."""

from typing import Any

import pytest

from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, Hint, HintFn, Resource
from rota.scheduler.framework.registry import NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.plugins.node_volume_limits import EXCEEDED, NodeVolumeLimits
from rota.testing import volumes as make
from rota.testing.volumes import Document

ANY: Any = None
DRIVER = "csi.example.com"


def csi_node(limit: int | None, *, driver: str = DRIVER, name: str = "a") -> Document:
    allocatable = {} if limit is None else {"allocatable": {"count": limit}}
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [{"name": driver, **allocatable}]}}


def held(number: int) -> list[Document]:
    """Claim c<number>, bound to a volume of the driver."""
    source = {"csi": {"driver": DRIVER, "volumeHandle": f"h{number}"}}
    return [make.claim(f"c{number}", volume=f"v{number}"), make.volume(f"v{number}", spec=source)]


def attachment(number: int, *, node: str = "a", attacher: str = DRIVER) -> Document:
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": f"v{number}"}}
    return {"kind": "VolumeAttachment", "metadata": {"name": f"va{number}-{node}"}, "spec": spec}


def verdict(pod: PodInfo, *documents: Document, there: tuple[PodInfo, ...] = ()) -> Status:
    on = make.cluster({"a": {}}, *documents, pods=there)
    found = make.verdicts(NodeVolumeLimits(NoArgs(), ANY), CycleState(), pod, on)
    assert isinstance(found, dict)
    return found["a"]


FOUR = [document for number in range(1, 5) for document in held(number)]
TWO_THERE = (make.pod("other", *make.uses("c1", "c2"), node="a"),)


@pytest.mark.parametrize(
    ("limit", "mine", "fits"),
    [(3, ("c3",), True), (2, ("c3",), False), (3, ("c3", "c4"), False), (4, ("c3", "c4"), True), (2, ("c1",), True)],
)
def test_a_node_takes_as_many_volumes_as_its_driver_says(limit: int, mine: tuple[str, ...], fits: bool) -> None:
    pod = make.pod("pod", *make.uses(*mine))
    status = verdict(pod, csi_node(limit), *FOUR, there=TWO_THERE)
    assert status.ok if fits else status is EXCEEDED
    assert EXCEEDED.code is Code.UNSCHEDULABLE


def test_without_a_limit_anything_goes() -> None:
    pod = make.pod("pod", *make.uses("c3"))
    assert verdict(pod, *FOUR, there=TWO_THERE).ok
    assert verdict(pod, csi_node(None), *FOUR, there=TWO_THERE).ok
    assert verdict(pod, csi_node(1, driver="other.example.com"), *FOUR, there=TWO_THERE).ok


def test_attachments_count_once_with_the_pods_that_use_them() -> None:
    pod = make.pod("pod", *make.uses("c3"))
    assert verdict(pod, csi_node(3), *FOUR, attachment(1), there=TWO_THERE).ok
    assert verdict(pod, csi_node(3), *FOUR, attachment(4), there=TWO_THERE) is EXCEEDED
    assert verdict(pod, csi_node(3), *FOUR, attachment(4, node="b"), there=TWO_THERE).ok


def test_a_claim_without_a_volume_counts_for_the_provisioner_of_its_class() -> None:
    claim, pod = make.claim("new", storage_class="fast"), make.pod("pod", *make.uses("new"))
    assert verdict(pod, csi_node(2), claim, make.storage_class("fast"), *FOUR, there=TWO_THERE) is EXCEEDED
    other = make.storage_class("fast", provisioner="other.example.com")
    assert verdict(pod, csi_node(2), claim, other, *FOUR, there=TWO_THERE).ok
    assert verdict(pod, csi_node(2), claim, *FOUR, there=TWO_THERE).ok


def test_former_in_tree_volumes_count_for_the_driver_that_took_over() -> None:
    there = make.pod("other", {"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}, node="a")
    source = {"awsElasticBlockStore": {"volumeID": "vol-2"}}
    documents = [make.claim("c", volume="v"), make.volume("v", spec=source)]
    pod = make.pod("pod", *make.uses("c"))
    assert verdict(pod, csi_node(1, driver="ebs.csi.aws.com"), *documents, there=(there,)) is EXCEEDED
    assert verdict(pod, csi_node(2, driver="ebs.csi.aws.com"), *documents, there=(there,)).ok


def test_a_driver_that_insists_is_missed_where_it_is_not_installed() -> None:
    insists = {"kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {"preventPodSchedulingIfMissing": True}}
    pod = make.pod("pod", *make.uses("c1"))
    missing = verdict(pod, csi_node(5, driver="other.example.com"), insists, *FOUR)
    assert (missing.code, missing.reasons) == (
        Code.UNSCHEDULABLE,
        (f"{DRIVER} CSI driver is not installed on the node",),
    )
    assert not verdict(pod, insists, *FOUR).ok
    assert verdict(pod, csi_node(5), insists, *FOUR).ok


def test_a_missing_claim_is_refused_in_the_words_of_the_api() -> None:
    status = verdict(make.pod("pod", *make.uses("gone")))
    assert status.code is Code.UNRESOLVABLE
    assert status.reasons == ('looking up PVC default/gone: persistentvolumeclaim "gone" not found',)


def test_an_ephemeral_claim_of_another_pod_is_an_error() -> None:
    pod = make.pod("pod", {"name": "scratch", "ephemeral": {}})
    stolen = verdict(pod, make.claim("pod-scratch", owner="uid-of-another"))
    assert stolen.code is Code.ERROR
    assert stolen.reasons == ("PVC default/pod-scratch was not created for pod default/pod (pod is not owner)",)
    assert verdict(pod, make.claim("pod-scratch", owner=pod.uid)).ok


def test_pods_that_attach_nothing_are_left_out_and_share_a_signature() -> None:
    plugin, pod = NodeVolumeLimits(NoArgs(), ANY), make.pod("pod", {"name": "x", "nfs": {"server": "s"}})
    assert plugin.pre_filter(CycleState(), pod, make.cluster({"a": {}})).status.skipped
    assert plugin.signature(pod) == ()
    assert plugin.signature(make.pod("pod", *make.uses("c1"))) is None


def hint_on(resource: Resource, action: Action) -> HintFn:
    for each in NodeVolumeLimits(NoArgs(), ANY).events_to_register():
        if each.event.resource == resource and each.event.actions & action and each.hint is not None:
            return each.hint
    raise AssertionError(resource)


def test_hints_wake_pods_for_what_concerns_them() -> None:
    pod = make.pod("pod", *make.uses("c1"))
    limits = hint_on(Resource.CSI_NODE, Action.UPDATE_OTHER)
    assert limits(pod, csi_node(1), csi_node(2)) is Hint.QUEUE
    assert limits(pod, csi_node(2), csi_node(2)) is Hint.SKIP
    assert limits(pod, csi_node(2), csi_node(1)) is Hint.SKIP
    deleted = hint_on(Resource.ASSIGNED_POD, Action.DELETE)
    assert deleted(pod, make.pod("other", *make.uses("c2"), node="a"), None) is Hint.QUEUE
    assert deleted(pod, make.pod("other", *make.uses("c2")), None) is Hint.SKIP
    assert deleted(pod, make.pod("other", node="a"), None) is Hint.SKIP
    added = hint_on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
    assert added(pod, None, make.claim("c1")) is Hint.QUEUE
    assert added(pod, None, make.claim("c2")) is Hint.SKIP
    detached = hint_on(Resource.VOLUME_ATTACHMENT, Action.DELETE)
    assert detached(pod, attachment(1), None) is Hint.QUEUE
    assert detached(make.pod(), attachment(1), None) is Hint.SKIP
    inline = make.pod("pod", {"name": "d", "cinder": {"volumeID": "x"}})
    assert detached(inline, attachment(1, attacher="cinder.csi.openstack.org"), None) is Hint.QUEUE
    assert detached(inline, attachment(1), None) is Hint.SKIP
