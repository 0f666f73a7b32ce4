"""VolumeRestrictions: disks that a node may mount once, claims that one pod may use."""

from typing import Any

import pytest

from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Hint, Resource
from rota.scheduler.framework.registry import NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.plugins.volume_restrictions import CLAIM_IN_USE, DISK_IN_USE, VolumeRestrictions
from rota.testing import volumes as make

ANY: Any = None
ONCE = ("ReadWriteOncePod",)


def disk(kind: str, **source: Any) -> dict[str, Any]:
    return {"name": "disk", kind: source}


def rbd(*monitors: str, image: str = "i", **more: Any) -> dict[str, Any]:
    return disk("rbd", monitors=list(monitors), image=image, **more)


def verdict_beside(mine: dict[str, Any], theirs: dict[str, Any]) -> Status:
    """The verdict on a node where another pod has mounted `theirs`."""
    other = make.pod("other", theirs, node="a", namespace="elsewhere")
    on = make.cluster({"a": {}, "b": {}}, pods=[other])
    found = make.verdicts(VolumeRestrictions(NoArgs(), ANY), CycleState(), make.pod("pod", mine), on)
    assert isinstance(found, dict)
    assert found["b"].ok
    return found["a"]


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        (disk("gcePersistentDisk", pdName="d"), disk("gcePersistentDisk", pdName="d"), True),
        (disk("gcePersistentDisk", pdName="d"), disk("gcePersistentDisk", pdName="e"), False),
        (
            disk("gcePersistentDisk", pdName="d", readOnly=True),
            disk("gcePersistentDisk", pdName="d", readOnly=True),
            False,
        ),
        (disk("gcePersistentDisk", pdName="d", readOnly=True), disk("gcePersistentDisk", pdName="d"), True),
        (
            disk("awsElasticBlockStore", volumeID="v", readOnly=True),
            disk("awsElasticBlockStore", volumeID="v", readOnly=True),
            True,
        ),
        (disk("awsElasticBlockStore", volumeID="v"), disk("gcePersistentDisk", pdName="v"), False),
        (disk("iscsi", iqn="q"), disk("iscsi", iqn="q"), True),
        (disk("iscsi", iqn="q", readOnly=True), disk("iscsi", iqn="q", readOnly=True), False),
        (rbd("m1", "m2"), rbd("m2", "m3"), True),
        (rbd("m1"), rbd("m2"), False),
        (rbd("m1"), rbd("m1", image="j"), False),
        (rbd("m1", pool="p"), rbd("m1"), False),
        (rbd("m1", pool="rbd"), rbd("m1"), True),
        (rbd("m1", readOnly=True), rbd("m1", readOnly=True), False),
    ],
)
def test_a_disk_in_use_on_the_node(mine: dict[str, Any], theirs: dict[str, Any], conflict: bool) -> None:
    status = verdict_beside(mine, theirs)
    assert (status is DISK_IN_USE) is conflict
    assert status.ok is not conflict


def test_a_claim_for_one_pod_is_refused_everywhere_while_another_pod_uses_it() -> None:
    other = make.pod("other", *make.uses("data"), node="a")
    on = make.cluster({"a": {}, "b": {}}, make.claim("data", modes=ONCE), pods=[other])
    found = make.verdicts(VolumeRestrictions(NoArgs(), ANY), CycleState(), make.pod("pod", *make.uses("data")), on)
    assert found == {"a": CLAIM_IN_USE, "b": CLAIM_IN_USE}
    assert CLAIM_IN_USE.code is Code.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("modes", "other"),
    [
        (("ReadWriteOnce",), make.pod("other", *make.uses("data"), node="a")),
        (ONCE, make.pod("other", *make.uses("data"), node="a", namespace="elsewhere")),
        (ONCE, make.pod("other", *make.uses("more"), node="a")),
    ],
)
def test_claims_that_are_free_leave_the_plugin_out(modes: tuple[str, ...], other: PodInfo) -> None:
    on = make.cluster({"a": {}}, make.claim("data", modes=modes), pods=[other])
    plugin = VolumeRestrictions(NoArgs(), ANY)
    assert plugin.pre_filter(CycleState(), make.pod("pod", *make.uses("data")), on).status.skipped


def test_evicting_the_user_of_a_claim_sets_it_free_in_a_copy_of_the_state() -> None:
    other, pod = make.pod("other", *make.uses("data"), node="a"), make.pod("pod", *make.uses("data"))
    on = make.cluster({"a": {}}, make.claim("data", modes=ONCE), pods=[other])
    plugin, state, node = VolumeRestrictions(NoArgs(), ANY), CycleState(), on.by_name["a"]
    assert plugin.pre_filter(state, pod, on).status.ok
    copy = state.clone()
    assert plugin.remove_pod(copy, pod, other, node).ok
    assert plugin.filter(copy, pod, node).ok
    assert plugin.filter(state, pod, node) is CLAIM_IN_USE
    assert plugin.add_pod(copy, pod, other, node).ok
    assert plugin.filter(copy, pod, node) is CLAIM_IN_USE


def test_evicting_a_pod_of_another_namespace_frees_nothing() -> None:
    other, pod = make.pod("other", *make.uses("data"), node="a"), make.pod("pod", *make.uses("data"))
    on = make.cluster({"a": {}}, make.claim("data", modes=ONCE), pods=[other])
    plugin, state, node = VolumeRestrictions(NoArgs(), ANY), CycleState(), on.by_name["a"]
    plugin.pre_filter(state, pod, on)
    plugin.remove_pod(state, pod, make.pod("stranger", *make.uses("data"), namespace="elsewhere"), node)
    assert plugin.filter(state, pod, node) is CLAIM_IN_USE


def test_a_missing_claim_ends_the_attempt() -> None:
    plugin, pod = VolumeRestrictions(NoArgs(), ANY), make.pod("pod", *make.uses("data"))
    status = plugin.pre_filter(CycleState(), pod, make.cluster({"a": {}})).status
    assert (status.code, status.reasons) == (Code.UNRESOLVABLE, ('persistentvolumeclaim "data" not found',))


def test_pods_without_volumes_share_a_signature() -> None:
    plugin = VolumeRestrictions(NoArgs(), ANY)
    assert plugin.signature(make.pod()) == ()
    assert plugin.signature(make.pod("pod", *make.uses("data"))) is None
    assert plugin.pre_filter(CycleState(), make.pod(), make.cluster({"a": {}})).status.skipped


def test_hints_wake_pods_for_what_concerns_them() -> None:
    plugin = VolumeRestrictions(NoArgs(), ANY)
    pod = make.pod("pod", *make.uses("data"), disk("iscsi", iqn="q"))
    hints = {each.event.resource: each.hint for each in plugin.events_to_register()}
    deleted, added = hints[Resource.ASSIGNED_POD], hints[Resource.PERSISTENT_VOLUME_CLAIM]
    assert deleted is not None
    assert added is not None
    assert deleted(pod, make.pod("other", *make.uses("data")), None) is Hint.QUEUE
    assert deleted(pod, make.pod("other", disk("iscsi", iqn="q")), None) is Hint.QUEUE
    assert deleted(pod, make.pod("other", *make.uses("more")), None) is Hint.SKIP
    assert deleted(pod, make.pod("other", *make.uses("data"), namespace="elsewhere"), None) is Hint.SKIP
    assert added(pod, None, make.claim("data")) is Hint.QUEUE
    assert added(pod, None, make.claim("more")) is Hint.SKIP
