"""The extender protocol from the extender's side: anything may come in."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.extender import messages
from rota.extender.messages import MalformedRequest
from rota.scheduler.extenders import messages as asking

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


def test_keys_count_in_any_case() -> None:
    asked = messages.args(b'{"pod": {"metadata": {"name": "p"}}, "nodenames": ["a"]}')
    assert (asked.pod["metadata"]["name"], asked.node_names, asked.nodes) == ("p", ["a"], None)


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
