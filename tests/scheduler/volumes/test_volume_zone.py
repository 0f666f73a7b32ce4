"""VolumeZone: bound volumes keep a pod in their zone and region."""

from typing import Any

import pytest

from rota.scheduler.framework.events import Hint, Resource
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.registry import NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code
from rota.scheduler.plugins.volume_zone import BETA_ZONE, REFUSED, REGION, ZONE, VolumeZone
from rota.testing import volumes as make
from rota.testing.volumes import Document

ANY: Any = None
NODES = {"a": {ZONE: "za", REGION: "west"}, "b": {ZONE: "zb", REGION: "west"}, "bare": {"disk": "ssd"}}


def refused(*documents: Document, claim: str = "data") -> list[str]:
    """Names of refused nodes."""
    plugin, on = VolumeZone(NoArgs(), ANY), make.cluster(NODES, *documents)
    found = make.verdicts(plugin, CycleState(), make.pod("pod", *make.uses(claim)), on)
    assert isinstance(found, dict)
    assert set(found.values()) <= {SUCCESS, REFUSED}
    return [name for name, status in found.items() if not status.ok]


def early(*documents: Document, claim: str = "data") -> PreFilterResult:
    plugin, on = VolumeZone(NoArgs(), ANY), make.cluster(NODES, *documents)
    found = make.verdicts(plugin, CycleState(), make.pod("pod", *make.uses(claim)), on)
    assert isinstance(found, PreFilterResult)
    return found


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({ZONE: "za"}, ["b"]),
        ({ZONE: "za__zb"}, []),
        ({BETA_ZONE: "zb"}, ["a"]),
        ({ZONE: "zc"}, ["a", "b"]),
        ({ZONE: "za", REGION: "east"}, ["a", "b"]),
        ({REGION: "west"}, []),
    ],
)
def test_a_node_outside_the_volume_s_zone_is_refused(labels: dict[str, str], expected: list[str]) -> None:
    assert refused(make.claim("data", volume="v"), make.volume("v", labels=labels)) == expected


@pytest.mark.parametrize("labels", [{}, {ZONE: "za____zb"}, {ZONE: ""}])
def test_volumes_without_a_readable_zone_leave_the_plugin_out(labels: dict[str, str]) -> None:
    assert early(make.claim("data", volume="v"), make.volume("v", labels=labels)).status.skipped


def test_pods_without_claims_are_left_out_and_share_a_signature() -> None:
    plugin, pod = VolumeZone(NoArgs(), ANY), make.pod("pod", {"name": "x", "emptyDir": {}})
    assert plugin.pre_filter(CycleState(), pod, make.cluster(NODES)).status.skipped
    assert plugin.signature(pod) == ()
    assert plugin.signature(make.pod("pod", *make.uses("data"))) is None


def test_a_claim_that_binds_late_demands_nothing() -> None:
    claim = make.claim("data", storage_class="slow")
    assert early(claim, make.storage_class("slow")).status.skipped


@pytest.mark.parametrize(
    ("documents", "claim", "reason"),
    [
        ((), "data", 'persistentvolumeclaim "data" not found'),
        ((), "", "PersistentVolumeClaim had no name"),
        ((make.claim("data"),), "data", "PersistentVolumeClaim had no pv name and storageClass name"),
        ((make.claim("data", volume="v"),), "data", 'persistentvolume "v" not found'),
        ((make.claim("data", storage_class="s"),), "data", 'storageclass.storage.k8s.io "s" not found'),
        (
            (make.claim("data", storage_class="s"), make.storage_class("s", late=False)),
            "data",
            "PersistentVolume had no name",
        ),
        (
            (make.claim("data", storage_class="s"), {**make.storage_class("s"), "volumeBindingMode": None}),
            "data",
            'VolumeBindingMode not set for StorageClass "s"',
        ),
    ],
)
def test_what_is_missing_ends_the_attempt(documents: tuple[Document, ...], claim: str, reason: str) -> None:
    status = early(*documents, claim=claim).status
    assert (status.code, status.reasons) == (Code.UNRESOLVABLE, (reason,))


def test_hints_wake_pods_for_what_concerns_them() -> None:
    plugin, pod = VolumeZone(NoArgs(), ANY), make.pod("pod", *make.uses("data"))
    hints = {each.event.resource: each.hint for each in plugin.events_to_register()}
    claim, volume = hints[Resource.PERSISTENT_VOLUME_CLAIM], hints[Resource.PERSISTENT_VOLUME]
    storage_class = hints[Resource.STORAGE_CLASS]
    assert claim is not None
    assert volume is not None
    assert storage_class is not None
    assert hints[Resource.NODE] is None
    assert claim(pod, None, make.claim("data")) is Hint.QUEUE
    assert claim(pod, None, make.claim("other")) is Hint.SKIP
    assert volume(pod, None, make.volume("v")) is Hint.QUEUE
    assert volume(pod, make.volume("v"), make.volume("v", labels={ZONE: "za"})) is Hint.QUEUE
    assert volume(pod, make.volume("v"), make.volume("v", size="2Gi")) is Hint.SKIP
    assert storage_class(pod, None, make.storage_class("s")) is Hint.QUEUE
    assert storage_class(pod, None, make.storage_class("s", late=False)) is Hint.SKIP
