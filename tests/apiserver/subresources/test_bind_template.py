"""A bound pod has all that it had, the node, and the condition PodScheduled."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.apiserver.subresources import bind_template

NOW = 1_767_225_600.0
TIME = "2026-01-01T00:00:00Z"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": TIME}
READY = {"type": "Ready", "status": "False"}


def _pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u-1", **metadata},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **(spec or {})},
        **({} if status is None else {"status": status}),
    }


def _stored(pod: dict[str, Any]) -> bytes:
    return json.dumps(pod, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, [SCHEDULED]),
        ({"phase": "Pending"}, [SCHEDULED]),
        ({"conditions": [READY]}, [READY, SCHEDULED]),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, READY]}, None),
    ],
)
def test_the_rest_of_the_pod_stays_as_it_is(before: dict[str, Any] | None, after: list[dict[str, Any]] | None) -> None:
    pod = _pod(status=before, labels={"a": "b"})
    for _ in range(2):
        found = bind_template.assignable(_stored(pod))
        assert found is not None
        assert found.uid == "u-1"
        assert found.share.requests["cpu"] == 1000
        bound = json.loads(found.assigned("n-1", NOW))
        assert bound["status"]["conditions"] == ([SCHEDULED, READY] if after is None else after)
        expected = {**(before or {}), "conditions": bound["status"]["conditions"]}
        assert bound == {**pod, "spec": {**pod["spec"], "nodeName": "n-1"}, "status": expected}


@pytest.mark.parametrize(
    "pod",
    [
        _pod(deletionTimestamp=TIME),
        _pod({"nodeName": "n"}),
        _pod({"schedulingGates": [{"name": "g"}]}),
        _pod({"hostname": "@@rota:node@@"}),
        _pod(status={"message": "9999-12-31T23:59:59Z"}),
        {"status": {}, **_pod()},
        {**_pod(), "metadata": {"uid": "u-1", "odd": [{"a": 1, "spec": {}}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u"}},
    ],
)
def test_whatever_is_unusual_needs_a_closer_look(pod: dict[str, Any]) -> None:
    assert bind_template.assignable(_stored(pod)) is None


@given(note=st.text(), node=st.text(min_size=1))
def test_texts_are_taken_for_nothing_but_texts(note: str, node: str) -> None:
    pod = _pod(annotations={"note": note, "more": ',"spec":{'})
    found = bind_template.assignable(_stored(pod))
    assert found is not None
    bound = json.loads(found.assigned(node, NOW))
    assert (bound["metadata"], bound["spec"]["nodeName"]) == (pod["metadata"], node)
