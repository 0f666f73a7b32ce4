"""Pods as they come from the wire: read fast, and the same as from plain data."""

import msgspec
import pytest
from hypothesis import given

from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import PodInterner, read_node
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.testing import clusters
from rota.testing.clusters import LAW, Document, make_node, make_pod


def _running(cpu: str) -> Document:
    document = make_pod("a", on="n1", cpu="100m")
    document["status"] = {"allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}
    return document


def test_a_pod_that_was_given_more_as_a_whole_takes_more() -> None:
    cache = SchedulerCache()
    cache.set_node(read_node(make_node("n1")))
    cache.add_or_update_pod(cache.interner.pod(_running("100m")))
    cache.add_or_update_pod(cache.interner.pod(_running("700m")))
    assert cache.cluster.by_name["n1"].requested["cpu"] == 700


@LAW
@given(clusters.pods("a", on=("n1", "")))
def test_pods_read_from_the_wire_are_those_read_from_plain_data(document: Document) -> None:
    interner = PodInterner()
    plain = interner.pod(document, keep=True)
    read = interner.pod_from_wire(msgspec.json.encode(document), keep_waiting=True)
    assert read.shape is plain.shape
    assert (read.uid, read.name, read.node_name, read.start_time) == (
        plain.uid,
        plain.name,
        plain.node_name,
        plain.start_time,
    )
    assert read.manifest == (None if plain.node_name else document)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"metadata": {"name": "a"}}, "pod.spec: is required"),
        ({"metadata": {"name": "a"}, "spec": {"containers": 7}}, "pod.spec.containers: Expected array, got int"),
        ({"metadata": {"name": "a"}, "spec": {"containers": [], "overhead": {"cpu": "1x"}}}, "pod.spec: "),
    ],
)
def test_what_is_wrong_with_a_pod_is_said_the_same_way_however_it_was_read(document: Document, problem: str) -> None:
    with pytest.raises(MalformedObjectError) as plain:
        PodInterner().pod(document)
    with pytest.raises(MalformedObjectError) as wired:
        PodInterner().pod_from_wire(msgspec.json.encode(document))
    assert str(wired.value) == str(plain.value)
    assert str(plain.value).startswith(problem)
