"""How far a binding has come: the question that the shell asks until it is done."""

from typing import Any

import pytest

from rota.columns.catalog import Catalog
from rota.scheduler.volumes import progress, volume_claims
from rota.scheduler.volumes.progress import BindingFailedError
from rota.testing import volumes as make
from rota.testing.volumes import Document

LABELS = {"kubernetes.io/hostname": "a"}
REFERENCE = {"claimRef": {"namespace": "default", "name": "data", "uid": "uid-data"}}


def catalog(*documents: Document) -> Catalog:
    made = Catalog()
    for document in documents:
        made.put(document["kind"], document)
    return made


def done(*now: Document, volumes: tuple[Document, ...] = (), provisioned: tuple[Document, ...] = ()) -> bool:
    return progress.done(
        node_name="a", node_labels=LABELS, volumes=volumes, provisioned=provisioned, catalog=catalog(*now)
    )


WRITTEN = make.volume("v", spec=REFERENCE)


def test_a_written_volume_is_done_when_its_claim_is_bound() -> None:
    assert not done(WRITTEN, make.claim("data"), volumes=(WRITTEN,))
    assert done(WRITTEN, make.claim("data", volume="v"), volumes=(WRITTEN,))


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ((make.claim("data"),), 'persistentvolume "v" not found'),
        ((make.volume("v"), make.claim("data")), 'ClaimRef got reset for pv "v"'),
        ((make.volume("v", node="b", spec=REFERENCE), make.claim("data")), "node affinity doesn't match"),
    ],
)
def test_a_written_volume_that_was_lost_is_a_failure(now: tuple[Document, ...], reason: str) -> None:
    with pytest.raises(BindingFailedError, match=reason):
        done(*now, volumes=(WRITTEN,))


def marked(**more: Any) -> Document:
    return make.claim("data", annotations={volume_claims.SELECTED_NODE: "a"}, **more)


def test_a_marked_claim_is_done_when_its_new_volume_is_there() -> None:
    assert not done(marked(), provisioned=(marked(),))
    assert not done(marked(volume="v"), provisioned=(marked(),))
    assert done(marked(volume="v"), make.volume("v", node="a"), provisioned=(marked(),))


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ((), 'persistentvolumeclaim "data" not found'),
        ((make.claim("data"),), 'provisioning failed for PVC "data"'),
        ((marked(volume="v"), make.volume("v", node="b")), "node affinity doesn't match"),
    ],
)
def test_a_claim_that_the_provisioner_gave_up_is_a_failure(now: tuple[Document, ...], reason: str) -> None:
    with pytest.raises(BindingFailedError, match=reason):
        done(*now, provisioned=(marked(),))
