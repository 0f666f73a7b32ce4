"""The content of a pod's shape, taken down and read again elsewhere."""

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodShape
from rota.testing import clusters
from rota.testing.clusters import LAW, Document, make_pod


def _figures(shape: PodShape) -> dict[str, object]:
    """Give what two vocabularies must agree on; what they intern is compared by content."""
    interned = {"group", "required_affinity", "required_anti_affinity", "preferred_affinity", "preferred_anti_affinity"}
    plain = {field.name: getattr(shape, field.name) for field in fields(shape) if field.name not in interned}
    group = shape.group
    return {**plain, "group": (group.namespace, dict(group.labels), group.terminating)}


@LAW
@given(st.one_of(clusters.pods("p"), clusters.pods("p", on=["n1"])))
def test_a_shape_read_again_is_the_same(document: Document) -> None:
    here, there = PodInterner(), PodInterner()
    shape = here.pod(document).shape
    content = here.content(shape)
    again = there.shape(content)
    assert there.content(again) == content
    assert _figures(again) == _figures(shape)
    assert here.shape(content) is shape


def test_volumes_owners_and_sidecars_survive() -> None:
    sidecar = {"name": "s", "image": "proxy:2", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}}
    document = make_pod(
        "web",
        on="n1",
        initContainers=[sidecar],
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "model", "image": {"reference": "models/a"}},
            {"name": "config", "configMap": {"name": "c"}},
        ],
        overhead={"cpu": "10m"},
        schedulingGates=[{"name": "quota"}],
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
    document["metadata"]["ownerReferences"] = [owner]
    here, there = PodInterner(), PodInterner()
    shape = here.pod(document).shape
    again = there.shape(here.content(shape))
    assert _figures(again) == _figures(shape)
    assert again.requests["cpu"] == 360
    assert again.images == ("proxy:2", "app:1", "models/a:latest")
