"""Pods that equal others but for who, where and when are read as if each had been read as a whole."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.ingest import decoder

CONDITION = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _pod(name: str, node: str = "", **metadata: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}
    status: dict[str, Any] = {"phase": "Pending"}
    if node:
        spec["nodeName"] = node
        status["conditions"] = [CONDITION]
    about = {"resourceVersion": str(len(name)), "name": name, "namespace": "a", "uid": f"uid-{name}", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec, "status": status}


def _raw(pod: dict[str, Any]) -> bytes:
    return json.dumps(pod, separators=(",", ":")).encode()


def _told(found: object) -> object:
    if not isinstance(found, PodInfo):
        return type(found)
    told = {name: getattr(found, name) for name in found.__struct_fields__ if name != "kept"}
    return told | {"manifest": found.manifest}


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
TRICKY = [
    _pod("p"),
    _pod("q", labels={"app": "x"}),
    _pod("r", labels={"app": "y"}, annotations={"note": ',"spec":{"nodeName":"n9"}'}),
    _pod("s", ownerReferences=[OWNER]),
    _pod("s", ownerReferences=[{**OWNER, "name": "other"}]),
    _pod("t", deletionTimestamp="2026-01-01T00:00:00Z"),
    _pod("u", "n1"),
    _pod("v", "n2"),
    _pod("v", "n2") | {"status": {"phase": "Succeeded"}},
    _pod("v", "n2") | {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}},
    _pod("w") | {"status": {"phase": "Pending", "nominatedNodeName": "n3"}},
    _pod("x") | {"spec": {"containers": [], "odd": {"nodeName": "n4"}}},
    _pod("y") | {"spec": {"containers": 7}},
    {**_pod("z"), "metadata": {"name": "z"}},
]


@given(st.lists(st.sampled_from(TRICKY), max_size=30))
def test_pods_are_read_the_same_in_whatever_company(pods: list[dict[str, Any]]) -> None:
    interner = PodInterner()
    remembering = decoder.pods(interner)
    for pod in pods:
        assert _told(remembering(_raw(pod))) == _told(decoder.pods(interner)(_raw(pod)))


@pytest.mark.parametrize("node", ["", "n1"])
def test_the_third_of_a_kind_is_not_taken_apart(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interner = PodInterner()
    read = decoder.pods(interner)
    first, _ = read(_raw(_pod("p1", node))), read(_raw(_pod("p2", node and "n2")))

    def never(*args: object, **options: object) -> None:
        raise AssertionError("read as a whole")

    monkeypatch.setattr(interner, "pod_from_wire", never)
    third = read(_raw(_pod("p3", node and "n3")))
    assert isinstance(first, PodInfo)
    assert isinstance(third, PodInfo)
    assert (third.name, third.uid, third.node_name) == ("p3", "uid-p3", node and "n3")
    assert third.shape is first.shape
    assert third.manifest == (None if node else msgspec.json.decode(_raw(_pod("p3"))))
