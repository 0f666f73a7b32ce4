"""What is sent to the webhook, and what it says."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.notices import bodies

from rota.api import times
from rota.notices import messages, node_lookup
from rota.notices.announcements import Kind
from rota.notices.messages import MOST, Machine, Malformed, Message
from rota.spot import node_signals
from rota.spot.node_signals import NodeSignals

NOW = times.parse("2026-03-01T12:00:00Z")


def read(body: Any, **headers: str) -> list[Message]:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return messages.read(sent, named, marks=NodeSignals(), now=NOW)


def only(body: Any, **headers: str) -> Message:
    (found,) = read(body, **headers)
    return found


def test_our_own_form() -> None:
    found = only(
        {
            "node": "n1",
            "uid": "u",
            "kind": "termination",
            "provider": "gcp",
            "deadline": "2026-03-01T12:00:30Z",
            "id": "x",
        }
    )
    assert found.machine == Machine(node="n1")
    said = found.said
    assert (said.kind, said.provider, said.deadline, said.id, said.uid) == (
        Kind.TERMINATION,
        "gcp",
        NOW + 30,
        "x",
        "u",
    )
    assert only({"instance": "i-1", "kind": "termination", "in": 45}).said.deadline == NOW + 45
    assert only({"providerID": "aws:///a/i-1", "kind": "risk"}).machine == Machine(provider_id="aws:///a/i-1")


def test_many_at_once() -> None:
    sent = {"notices": [{"node": f"n{number}", "kind": "termination", "in": 30} for number in range(200)]}
    assert [one.machine.node for one in read(sent)] == [f"n{number}" for number in range(200)]


def test_a_deadline_makes_a_repetition_known_and_a_span_does_not() -> None:
    dated = {"node": "n1", "kind": "termination", "deadline": "2026-03-01T12:00:30Z"}
    assert only(dated).said.mark == only(dated).said.mark != ""
    assert only({"node": "n1", "kind": "termination", "in": 30}).said.mark == ""


def test_a_cloud_event_in_both_of_its_forms() -> None:
    data = {"node": "n1", "kind": "withdrawn"}
    event = {"specversion": "1.0", "id": "7", "source": "/ours", "type": messages.CLOUD_EVENT}
    whole = only({**event, "time": "2026-03-01T11:59:00Z", "data": data})
    assert (whole.said.kind, whole.said.said_at) == (Kind.WITHDRAWN, NOW - 60)
    apart = only(data, ce_specversion="1.0", ce_id="7", ce_source="/ours", ce_type=messages.CLOUD_EVENT)
    assert apart.said.mark == whole.said.mark
    assert read({**event, "type": "something.else", "data": {"specversion": 1}}) == []
    wrapped = only({**event, "type": "aws.ec2", "data": bodies.interruption()})
    assert wrapped.machine == Machine(instance="i-0abc")


def test_amazons_events() -> None:
    found = only(bodies.interruption())
    assert found.machine == Machine(instance="i-0abc")
    assert (found.said.kind, found.said.provider, found.said.deadline) == (Kind.TERMINATION, "aws", None)
    assert found.said.said_at == NOW
    assert only(bodies.rebalance()).said.kind is Kind.RISK
    assert only(bodies.state("shutting-down")).said.deadline == NOW
    assert read(bodies.state("running")) == []
    assert read(bodies.interruption(**{"detail-type": "EBS Volume Notification"})) == []


def test_googles_log_bare_and_pushed() -> None:
    for body in (bodies.preempted(), bodies.pushed(bodies.preempted())):
        found = only(body)
        assert found.machine == Machine(provider_id="gce://p/europe-west1-b/gke-1")
        assert (found.said.kind, found.said.provider, found.said.said_at) == (Kind.TERMINATION, "gcp", NOW + 0.5)
    assert read(bodies.preempted(method="v1.compute.instances.delete")) == []
    assert read(bodies.pushed({"textPayload": "hello"})) == []


def test_azures_scheduled_events() -> None:
    one, other = read(bodies.scheduled("Preempt", "pool_3", "pool_4"))
    assert (one.machine, other.machine) == (Machine(instance="pool_3"), Machine(instance="pool_4"))
    assert (one.said.kind, one.said.provider, one.said.deadline) == (Kind.TERMINATION, "azure", NOW + 30)
    assert only(bodies.scheduled("Redeploy")).said.kind is Kind.RISK
    assert read(bodies.scheduled("Freeze")) == []
    assert read(bodies.scheduled("Preempt", EventStatus="Completed")) == []
    assert only(bodies.scheduled("Preempt", NotBefore="", EventStatus="Started")).said.deadline is None


def test_an_unknown_provider_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    body = {"node": "n1", "kind": "termination", "provider": "exampel"}
    with pytest.raises(Malformed, match=r"unknown provider 'exampel': the table of marks has alibaba, aws, .*--marks"):
        read(body)
    table = tmp_path / "marks.yaml"
    table.write_text("marks:\n- {means: notice, place: taint, key: example.com/x, provider: exampel, lead: 9}\n")
    found = messages.read(json.dumps(body).encode(), {}, marks=node_signals.read(table), now=NOW)
    assert found[0].said.provider == "exampel"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[" * 100_000, "recursion"),
        ([], "no JSON object"),
        ("x", "no JSON object"),
        ({}, "missing required field `kind`"),
        ({"node": "n1"}, "missing required field `kind`"),
        ({"node": "n1", "kind": "boom"}, "Invalid enum value 'boom'"),
        ({"kind": "termination"}, "one of node, providerID and instance"),
        ({"kind": "termination", "node": "a", "instance": "b"}, "one of node, providerID and instance"),
        ({"node": "n1", "kind": "risk", "dedline": "x"}, "unknown field `dedline`"),
        ({"node": "../../api/v1/pods", "kind": "risk"}, "is no name of a node"),
        ({"node": "N1", "kind": "risk"}, "is no name of a node"),
        ({"node": "n1", "kind": "termination", "deadline": "soon"}, "'soon' is no time"),
        ({"node": "n1", "kind": "termination", "deadline": "2026-03-01T12:00:00Z", "in": 1}, "both a deadline"),
        ({"node": "n1", "kind": "termination", "deadline": "2036-03-01T12:00:00Z"}, "more than 7 days away"),
        ({"node": "n1", "kind": "termination", "in": -1}, ">= 0"),
        ({"node": "n1", "kind": "termination", "in": 1e300}, "<="),
        ({"instance": "n" * 600, "kind": "termination"}, "length <= 512"),
        ({"node": 7, "kind": "termination"}, "Expected `str`"),
        ({"notices": {}}, "no list"),
        ({"notices": [{"node": "n", "kind": "risk"}] * (MOST + 1)}, "no list of at most"),
        ({"notices": [[]]}, "Expected `object`"),
        ({"specversion": "1.0"}, "missing required field"),
        ({"detail-type": "EC2 Spot Instance Interruption Warning", "id": "1", "source": "x"}, "instance-id"),
        ({"message": {"data": "%%%"}}, "base64"),
        ({"message": {"data": "e30"}}, "base64"),
        ({"message": {"data": "eA=="}}, "base64"),
        ({"protoPayload": {"methodName": "compute.instances.preempted", "resourceName": "a/b"}}, "no instance"),
        ({"Events": [{}]}, "missing required field"),
        ({"Events": 1}, "Expected `array`"),
    ],
)
def test_what_is_no_notice_is_refused_in_words_that_say_where(body: Any, why: str) -> None:
    with pytest.raises(Malformed) as told:
        read(body)
    assert why.lower() in str(told.value).lower()
    assert len(str(told.value)) < 400


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["node", "kind", "notices", "specversion", "detail-type", "detail", "Events", "message", "data", "id"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(_JSON)
def test_nothing_that_is_sent_makes_it_stumble(body: Any) -> None:
    try:
        found = read(body)
    except Malformed:
        return
    assert all(str(one.machine) for one in found)


@pytest.mark.parametrize(
    ("provider_id", "known"),
    [
        ("aws:///us-east-1a/i-0ABC", {"aws:///us-east-1a/i-0abc", "i-0abc"}),
        ("gce://p/europe-west1-b/gke-1", {"gce://p/europe-west1-b/gke-1", "gke-1"}),
        (
            "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/3",
            {
                "azure:///subscriptions/s/resourcegroups/g/providers/microsoft.compute/virtualmachinescalesets/pool/virtualmachines/3",
                "pool_3",
            },
        ),
        (
            "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm1",
            {"azure:///subscriptions/s/resourcegroups/g/providers/microsoft.compute/virtualmachines/vm1", "vm1"},
        ),
        ("", set()),
        ("bare", {"bare"}),
    ],
)
def test_machines_are_known_by_what_their_clouds_call_them(provider_id: str, known: set[str]) -> None:
    assert set(node_lookup.names(provider_id)) == known
