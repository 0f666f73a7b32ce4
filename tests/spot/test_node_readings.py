"""What the marks of nodes say."""

from pathlib import Path
from typing import Any

import pytest

from rota.api import times
from rota.kit import errors
from rota.spot import node_readings, node_signals
from rota.spot.node_readings import Capacity
from rota.spot.node_signals import BUILTIN, Means, NodeSignal, NodeSignals, Place

NOW = times.parse("2026-03-01T12:00:00Z")
TABLE = NodeSignals()


def node(
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    conditions: list[dict[str, str]] | None = None,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "uid": "u1", "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"taints": taints or []},
        "status": {"conditions": conditions or []},
    }


def marked(mark: NodeSignal) -> dict[str, Any]:
    value = mark.values[0] if mark.values else "x"
    match mark.place:
        case Place.LABEL:
            return node(labels={mark.key: value})
        case Place.TAINT:
            return node(taints=[{"key": mark.key, "value": value, "effect": "NoSchedule"}])
        case Place.CONDITION:
            return node(conditions=[{"type": mark.key, "status": value}])
        case Place.ANNOTATION:
            return node(annotations={mark.key: value})
        case Place.EVENT:
            raise AssertionError("an event is not part of a node")


ON_NODES = [mark for mark in BUILTIN if mark.place is not Place.EVENT]


@pytest.mark.parametrize("mark", ON_NODES, ids=lambda mark: f"{mark.key}={','.join(mark.values)}")
def test_every_mark_of_the_table_is_read_as_what_it_means(mark: NodeSignal) -> None:
    reading = node_readings.read(marked(mark), TABLE, now=NOW)
    assert reading.capacity is {Means.SPOT: Capacity.SPOT, Means.ON_DEMAND: Capacity.ON_DEMAND}.get(
        mark.means, Capacity.UNKNOWN
    )
    assert bool(reading.risky) is (mark.means is Means.RISK)
    if mark.means is Means.NOTICE:
        assert reading.notice is not None
        assert (reading.notice.provider, reading.notice.mark) == (mark.provider, mark.key)
        assert reading.notice.deadline == NOW + (mark.lead or 0)
    else:
        assert reading.notice is None


@pytest.mark.parametrize(("provider", "lead"), [("aws", 120), ("gcp", 30), ("azure", 30), ("byteplus", 300), ("", 120)])
def test_our_own_mark_tells_the_provider_and_by_it_the_time(provider: str, lead: float) -> None:
    taint = {"key": node_signals.TERMINATING, "value": provider, "effect": "NoSchedule"}
    notice = node_readings.read(node(taints=[taint]), TABLE, now=NOW).notice
    assert notice is not None
    assert (notice.provider, notice.deadline) == (provider, NOW + lead)
    assert TABLE.lead(provider) == lead


def test_a_table_knows_its_providers_and_whether_events_matter(tmp_path: Path) -> None:
    path = tmp_path / "marks.yaml"
    path.write_text(
        "replace: true\nmarks:\n- {means: notice, place: taint, key: example.com/x, provider: example, lead: 600}\n"
    )
    table = node_signals.read(path)
    assert table.providers == {"example"}
    assert table.lead("example") == 600
    assert not table.heeds_events
    assert TABLE.heeds_events
    assert {"aws", "azure", "gcp", "karpenter"} < TABLE.providers


def test_a_node_that_is_not_ready_is_not_about_to_go() -> None:
    down = node(
        labels={"node.kubernetes.io/capacity": "spot"},
        taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}],
        conditions=[{"type": "Ready", "status": "False"}],
    )
    assert node_readings.read(down, TABLE, now=NOW).notice is None


def test_where_labels_disagree_the_machine_may_go() -> None:
    labels = {"node.kubernetes.io/capacity": "on-demand", "karpenter.sh/capacity-type": "spot"}
    assert node_readings.read(node(labels=labels), TABLE, now=NOW).capacity is Capacity.SPOT


def test_a_notice_counts_from_when_its_mark_appeared() -> None:
    taint = {
        "key": "aws-node-termination-handler/spot-itn",
        "effect": "NoSchedule",
        "timeAdded": "2026-03-01T11:59:00Z",
    }
    notice = node_readings.read(node(taints=[taint]), TABLE, now=NOW).notice
    assert notice is not None
    assert (notice.since, notice.left(NOW)) == (NOW - 60, 60)


def test_an_announced_deadline_overrides_the_default() -> None:
    taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    told = node(taints=taints, annotations={"karpenter.sh/nodeclaim-termination-timestamp": "2026-03-01T12:05:00Z"})
    notice = node_readings.read(told, TABLE, now=NOW).notice
    assert notice is not None
    assert notice.deadline == NOW + 300


@pytest.mark.parametrize("key", ["karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler"])
def test_an_autoscaler_drain_respects_budgets_unless_it_has_a_deadline(key: str) -> None:
    drains = {"key": key, "value": "disrupting", "effect": "NoSchedule", "timeAdded": "2026-03-01T12:00:00Z"}
    notice = node_readings.read(node(taints=[drains]), TABLE, now=NOW).notice
    assert notice is not None
    assert notice.waits
    told = node(taints=[drains], annotations={"karpenter.sh/nodeclaim-termination-timestamp": "2026-03-01T12:05:00Z"})
    notice = node_readings.read(told, TABLE, now=NOW).notice
    assert notice is not None
    assert not notice.waits


def test_an_end_that_is_sure_counts_before_one_that_budgets_may_put_off() -> None:
    drains = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule", "timeAdded": "2026-03-01T11:58:30Z"}
    reclaimed = {**drains, "key": "aws-node-termination-handler/spot-itn", "timeAdded": "2026-03-01T12:00:00Z"}
    notice = node_readings.read(node(taints=[drains, reclaimed]), TABLE, now=NOW).notice
    assert notice is not None
    assert (notice.mark, notice.waits, notice.left(NOW)) == (reclaimed["key"], False, 120)


def test_a_deadline_inside_a_message_is_found() -> None:
    condition = {
        "type": "PreemptionScheduled",
        "status": "True",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
        "message": "eviction is incoming, not before 2026-03-01T12:00:21Z",
    }
    notice = node_readings.read(node(conditions=[condition]), TABLE, now=NOW).notice
    assert notice is not None
    assert notice.deadline == NOW + 21


def test_of_two_notices_the_sooner_one_counts() -> None:
    taints = [{"key": "aws-node-termination-handler/spot-itn"}, {"key": "cloud.google.com/impending-node-termination"}]
    notice = node_readings.read(node(taints=taints), TABLE, now=NOW).notice
    assert notice is not None
    assert notice.provider == "gcp"


def test_a_deadline_alone_is_no_notice() -> None:
    told = node(annotations={"rota.dev/terminates-at": "2026-03-01T12:05:00Z"})
    assert node_readings.read(told, TABLE, now=NOW).notice is None


def test_users_add_marks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "marks.yaml"
    path.write_text("marks:\n- {means: notice, place: taint, key: example.com/reclaim, provider: example, lead: 60}\n")
    taints = [{"key": "example.com/reclaim"}]
    notice = node_readings.read(node(taints=taints), node_signals.read(path), now=NOW).notice
    assert notice is not None
    assert (notice.provider, notice.deadline) == ("example", NOW + 60)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("marks: [{means: gone, place: taint, key: a}]", "gone"),
        ("marks: [{place: taint, key: a}]", "means"),
        ("marks: [{means: spot, place: label, key: a, colour: red}]", "colour"),
        ("marks: {", "flow"),
        ("[]", "object"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "marks.yaml"
    path.write_text(text)
    with pytest.raises(errors.UserError, match=complaint):
        node_signals.read(path)
