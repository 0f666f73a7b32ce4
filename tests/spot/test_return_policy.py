"""Who goes back to spot machines, and when pools are trusted."""

from typing import Any

import pytest

from rota.spot import policies, return_policy
from rota.spot.node_signals import NodeSignals
from rota.spot.return_policy import Pools


def wants(annotations: dict[str, str] | None = None, *preferred: dict[str, Any]) -> bool:
    terms = [{"weight": 1, "preference": {"matchExpressions": [one]}} for one in preferred]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    pod = {"metadata": {"annotations": annotations or {}}, "spec": {"affinity": affinity}}
    return return_policy.wants(pod, policies.parse(annotations or {}), NodeSignals())


def test_a_workload_that_says_nothing_stays_where_it_is() -> None:
    assert not wants()
    assert not wants({"rota.dev/spot": "never"})
    assert not wants(None, {"key": "disk", "operator": "In", "values": ["ssd"]})
    assert not wants(None, {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]})


@pytest.mark.parametrize("annotation", ["rota.dev/spot", "rota.dev/spot-base", "rota.dev/spot-max-share"])
def test_annotations_ask_for_spot_machines(annotation: str) -> None:
    assert wants({annotation: "prefer" if annotation == "rota.dev/spot" else "1"})


def test_a_preferred_affinity_for_a_mark_of_spot_machines_asks_for_them() -> None:
    assert wants(None, {"key": "node.kubernetes.io/capacity", "operator": "In", "values": ["spot"]})
    assert wants(None, {"key": "eks.amazonaws.com/capacityType", "operator": "In", "values": ["SPOT"]})
    assert wants(None, {"key": "machine.openshift.io/interruptible-instance", "operator": "Exists"})
    never = {"rota.dev/spot": "never"}
    assert not wants(never, {"key": "node.kubernetes.io/capacity", "operator": "In", "values": ["spot"]})


def test_a_pool_is_quiet_since_its_last_loss_or_the_start_of_observation() -> None:
    pools = Pools(since=100.0)
    assert pools.quiet_for("a", now=150.0) == 50
    pools.record_interruption("a", now=140.0)
    pools.record_interruption("a", now=130.0)
    assert pools.quiet_for("a", now=150.0) == 10
    assert pools.quiet_for("b", now=150.0) == 50
