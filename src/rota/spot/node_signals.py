"""The table of signals by which spot machines and notices are recognized; users can extend it.

Clouds and tools use labels, taints, conditions and annotations of nodes and events about them, each with its own keys.
This table is data; `rota.spot.node_readings` reads nodes by it, `rota.notices` reads events. A node that is not ready
is not a signal: that comes when pods are already lost, and on every network failure.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from rota.kit import errors

#: The taint of a notice that Rota received; its value is the provider.
TERMINATING: Final = "rota.dev/terminating"
#: The taint of a machine with elevated risk.
AT_RISK: Final = "rota.dev/at-risk"
#: The annotation with the time at which a machine ends.
TERMINATES_AT: Final = "rota.dev/terminates-at"
#: The time that is left after a notice of an unknown provider that gives none.
_USUAL_LEAD_S: Final = 120.0


class Means(enum.Enum):
    """What a signal says about its node."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    #: It will be reclaimed.
    NOTICE = "notice"
    #: It has an elevated risk of being reclaimed.
    RISK = "risk"
    #: When it will be reclaimed; a time alone is not a notice.
    DEADLINE = "deadline"


class Place(enum.Enum):
    """Where a signal is found."""

    LABEL = "label"
    TAINT = "taint"
    CONDITION = "condition"
    ANNOTATION = "annotation"
    #: Not on the node itself: the key is the reason of an event about it, the values are the permitted reporters.
    EVENT = "event"


class NodeSignal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key, and what it means with one of the values, or with any value if none is given."""

    means: Means
    place: Place
    key: str
    values: tuple[str, ...] = ()
    provider: str = ""
    #: Seconds left from the moment when the signal appears, if nothing else gives a time.
    lead: float | None = None
    #: For a notice: the provider respects budgets while it drains the machine, so the signal implies no deadline.
    waits: bool = False

    def matches(self, value: str) -> bool:
        """Whether the signal matches a value of the key."""
        return not self.values or value.lower() in map(str.lower, self.values)


def _table(
    means: Means, place: Place, *rows: tuple[str, str, Sequence[str], float | None], waits: bool = False
) -> list[NodeSignal]:
    return [
        NodeSignal(means=means, place=place, provider=provider, key=key, values=tuple(values), lead=lead, waits=waits)
        for provider, key, values, lead in rows
    ]


#: The known signals of clouds, autoscalers and termination handlers.
BUILTIN: Final[Sequence[NodeSignal]] = (
    *_table(
        Means.SPOT,
        Place.LABEL,
        ("", "node.kubernetes.io/capacity", ["spot"], None),
        ("", "node.kubernetes.io/lifecycle", ["spot"], None),
        ("", "node-role.kubernetes.io/spot-worker", [], None),
        ("", "cluster.x-k8s.io/interruptible", [], None),
        ("karpenter", "karpenter.sh/capacity-type", ["spot"], None),
        ("aws", "eks.amazonaws.com/capacityType", ["SPOT"], None),
        ("gcp", "cloud.google.com/gke-spot", ["true"], None),
        ("gcp", "cloud.google.com/gke-preemptible", ["true"], None),
        ("gcp", "cloud.google.com/gke-provisioning", ["spot", "preemptible"], None),
        ("azure", "kubernetes.azure.com/scalesetpriority", ["spot"], None),
        ("openshift", "machine.openshift.io/interruptible-instance", [], None),
        ("spotinst", "spotinst.io/node-lifecycle", ["spot"], None),
    ),
    *_table(
        Means.ON_DEMAND,
        Place.LABEL,
        ("", "node.kubernetes.io/capacity", ["on-demand"], None),
        ("", "node.kubernetes.io/lifecycle", ["on-demand", "normal"], None),
        ("karpenter", "karpenter.sh/capacity-type", ["on-demand", "reserved"], None),
        ("aws", "eks.amazonaws.com/capacityType", ["ON_DEMAND", "CAPACITY_BLOCK"], None),
        ("gcp", "cloud.google.com/gke-provisioning", ["standard"], None),
        ("azure", "kubernetes.azure.com/scalesetpriority", ["regular"], None),
        ("spotinst", "spotinst.io/node-lifecycle", ["od"], None),
    ),
    *_table(
        Means.NOTICE,
        Place.TAINT,
        ("alibaba", TERMINATING, ["alibaba"], 300.0),
        ("byteplus", TERMINATING, ["byteplus"], 300.0),
        ("oci", TERMINATING, ["oci"], 30.0),
        ("tencent", TERMINATING, ["tencent"], 120.0),
        ("", TERMINATING, [], _USUAL_LEAD_S),
        ("aws", "aws-node-termination-handler/spot-itn", [], 120.0),
        ("aws", "aws-node-termination-handler/asg-lifecycle-termination", [], 120.0),
        ("aws", "aws-node-termination-handler/scheduled-maintenance", [], 120.0),
        ("gcp", "cloud.google.com/impending-node-termination", [], 30.0),
        ("azure", "remediator.aks.microsoft.com/unschedulable", [], 30.0),
        ("", "node.cloudprovider.kubernetes.io/shutdown", [], 0.0),
    ),
    # autoscalers also drain machines that are underutilized or expired, and stop if a budget refuses
    *_table(
        Means.NOTICE,
        Place.TAINT,
        ("karpenter", "karpenter.sh/disrupted", [], 120.0),
        ("karpenter", "karpenter.sh/disruption", ["disrupting"], 120.0),
        ("", "ToBeDeletedByClusterAutoscaler", [], 120.0),
        waits=True,
    ),
    *_table(
        Means.NOTICE,
        Place.CONDITION,
        ("azure", "PreemptionScheduled", ["True"], 30.0),
        ("openshift", "Terminating", ["True"], 120.0),
    ),
    *_table(
        Means.RISK,
        Place.TAINT,
        ("", AT_RISK, [], None),
        ("aws", "aws-node-termination-handler/rebalance-recommendation", [], None),
        ("", "DeletionCandidateOfClusterAutoscaler", [], None),
    ),
    *_table(Means.RISK, Place.CONDITION, ("azure", "VMEventScheduled", ["True"], None)),
    *_table(
        Means.NOTICE,
        Place.EVENT,
        ("aws", "SpotInterruption", [], 120.0),
        ("aws", "SQSTermination", [], 120.0),
        ("karpenter", "SpotInterrupted", [], 120.0),
        ("azure", "PreemptScheduled", [], 30.0),
        ("azure", "TerminateScheduled", [], 300.0),
    ),
    *_table(
        Means.RISK,
        Place.EVENT,
        ("aws", "RebalanceRecommendation", [], None),
        ("karpenter", "SpotRebalanceRecommendation", [], None),
        ("azure", "RedeployScheduled", [], None),
        ("azure", "RebootScheduled", [], None),
    ),
    *_table(
        Means.DEADLINE,
        Place.ANNOTATION,
        ("", TERMINATES_AT, [], None),
        ("karpenter", "karpenter.sh/nodeclaim-termination-timestamp", [], None),
    ),
)


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """A user's file."""

    marks: list[NodeSignal]
    #: Leave out the built-in table.
    replace: bool = False


class NodeSignals:
    """The table, indexed by place and key."""

    def __init__(self, marks: Iterable[NodeSignal] = BUILTIN) -> None:
        self._by_key: Final[dict[tuple[Place, str], list[NodeSignal]]] = {}
        #: Default seconds that are left after a notice, by provider; None where the table does not say.
        self._leads: Final[dict[str, float | None]] = {}
        for mark in marks:
            self._by_key.setdefault((mark.place, mark.key), []).append(mark)
            if mark.provider:
                known = self._leads.setdefault(mark.provider, None)
                if mark.means is Means.NOTICE and mark.lead is not None:
                    self._leads[mark.provider] = mark.lead if known is None else min(known, mark.lead)

    @property
    def providers(self) -> frozenset[str]:
        """The known providers."""
        return frozenset(self._leads)

    @property
    def heeds_events(self) -> bool:
        """Whether the table contains signals in events."""
        return any(place is Place.EVENT for place, _ in self._by_key)

    def lead(self, provider: str) -> float:
        """Seconds that a provider's machines have left after a notice without a time."""
        lead = self._leads.get(provider)
        return _USUAL_LEAD_S if lead is None else lead

    def about(self, place: Place, key: str) -> Sequence[NodeSignal]:
        """All signals with a key."""
        return self._by_key.get((place, key), ())

    def find(self, place: Place, entries: Mapping[str, str]) -> Iterable[tuple[NodeSignal, str]]:
        """The signals among entries of a place, each with its value."""
        for key, value in entries.items():
            for mark in self._by_key.get((place, key), ()):
                if mark.matches(value):
                    yield mark, value


def read(path: Path) -> NodeSignals:
    """The built-in table with a user's signals in front, from YAML; UserError names what is wrong.

    marks:
    - {means: notice, place: taint, key: example.com/reclaim, provider: example, lead: 60}
    """
    try:
        document = msgspec.convert(_plain(yaml.safe_load(path.read_bytes())), _Document)
    except OSError as problem:
        raise errors.UserError(f"cannot read {path}: {problem.strerror}", "name a file with marks of nodes") from None
    except (yaml.YAMLError, msgspec.ValidationError) as problem:
        what = " ".join(str(problem).split())
        raise errors.UserError(f"{path}: {what}", f"a mark has {', '.join(NodeSignal.__struct_fields__)}") from None
    return NodeSignals([*document.marks, *(() if document.replace else BUILTIN)])


def _plain(value: Any) -> Any:
    """An empty file is one without signals."""
    return {"marks": []} if value is None else value
