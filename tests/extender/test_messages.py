"""The extender protocol from the extender's side: anything may come in."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import quantities
from rota.extender import messages
from rota.extender.answers import Adviser
from rota.extender.messages import MalformedRequest
from rota.extender.view import View
from rota.scheduler.extenders import messages as asking
from rota.spot.policies import PolicyError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("Pod", "pod", "Nodes", "nodenames", "NodeNameToVictims", "NodeNameToMetaVictims", "PodName"),
                    *("items", "metadata", "name", "labels", "spec", "taints", "status", "Pods", "UID", "Node"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_comes_in_is_understood_or_refused(document: Any) -> None:
    body = json.dumps(document).encode()
    for read in (messages.args, messages.preemption_args, messages.binding_args):
        with contextlib.suppress(MalformedRequest):
            read(body)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"null", b'{"Pod": {"metadata": {}}}'])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        messages.args(body)


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything inside of a value."""
    for part in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*way, part)
        yield from ways(value[part], (*way, part))


NODE = {
    "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}, "annotations": {"rota.dev/terminates-at": "soon"}},
    "spec": {"taints": [{"key": "rota.dev/terminating", "value": "x", "timeAdded": "2026-01-01T00:00:00Z"}]},
    "status": {
        "allocatable": {"cpu": "1", "memory": "1Gi"},
        "conditions": [{"type": "Terminating", "status": "True", "lastTransitionTime": "", "message": "m"}],
    },
}
POD = {"metadata": {"name": "p", "annotations": {"rota.dev/spot": "prefer"}, "ownerReferences": [{"controller": True}]}}
REQUEST = {"Pod": POD, "Nodes": {"items": [NODE]}}


@given(
    st.sampled_from(list(ways(REQUEST))),
    st.sampled_from([None, 5, 1.5, True, "x", [], {}, ["a"], [{}], {"a": 1}, {"a": []}]),
)
def test_nothing_odd_gets_past_the_door(way: tuple[Any, ...], odd: Any) -> None:
    request = json.loads(json.dumps(REQUEST))
    inside = request
    for part in way[:-1]:
        inside = inside[part]
    inside[way[-1]] = odd
    view = View()
    with contextlib.suppress(MalformedRequest, PolicyError, quantities.QuantityError):
        asked = messages.args(json.dumps(request).encode())
        candidates = [view.read(node, now=1.0) for node in asked.nodes or ()]
        Adviser(view).filter(asked.pod, candidates, now=1.0)
        Adviser(view).prioritize(asked.pod, candidates, now=1.0)


def test_keys_count_in_any_case() -> None:
    asked = messages.args(b'{"pod": {"metadata": {"name": "p"}}, "nodenames": ["a"]}')
    assert (asked.pod["metadata"]["name"], asked.node_names, asked.nodes) == ("p", b'["a"]', None)


def test_answers_have_the_casing_of_go() -> None:
    body = json.loads(messages.filter_result(names=["a"], failed={"b": "no"}))
    assert body == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {"b": "no"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert json.loads(messages.host_priorities([("a", 3)])) == [{"Host": "a", "Score": 3}]


def test_our_own_scheduler_reads_the_answers() -> None:
    result = asking.filter_result(messages.filter_result(names=["a"], unresolvable={"b": "ends"}))
    assert (result.node_names, result.unresolvable) == (("a",), {"b": "ends"})
    assert asking.host_priorities(messages.host_priorities([("a", 3)])) == {"a": 3}
    assert asking.binding_result(messages.binding_result("no")) == "no"


def test_victims_come_whole_or_by_uid() -> None:
    pod = {"metadata": {"name": "p"}}
    whole = {"a": {"Pods": [{"metadata": {"name": "v", "uid": "1"}}], "NumPDBViolations": 2}}
    meta = {"a": {"Pods": [{"UID": "1"}], "NumPDBViolations": 2}}
    for victims in ({"NodeNameToVictims": whole}, {"NodeNameToMetaVictims": meta}):
        asked = messages.preemption_args(json.dumps({"Pod": pod, **victims}).encode())
        assert asked.victims == {"a": (["1"], 2)}
        found = asking.preemption_result(messages.preemption_result(["a"], asked))
        assert (found["a"].uids, found["a"].violations) == (("1",), 2)
