"""The marks by which spot machines and their end are known: one table, which users extend.

Clouds and tools say it with labels, taints, conditions and annotations of nodes, each with keys of its own. Here they
are data; `rota.spot.nodes` reads a node by them. That a node is not ready is no mark: it comes when pods die already,
and on every flap of a network.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from rota.kit import errors


class Means(enum.Enum):
    """What a mark says about its node."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    #: It will be taken away.
    NOTICE = "notice"
    #: It may be taken away sooner than others.
    RISK = "risk"
    #: When it will be taken away; a time by itself is no notice.
    DEADLINE = "deadline"


class Place(enum.Enum):
    """Where on a node a mark stands."""

    LABEL = "label"
    TAINT = "taint"
    CONDITION = "condition"
    ANNOTATION = "annotation"


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key, and what it means where it has one of the values, or any where none is named."""

    means: Means
    place: Place
    key: str
    values: tuple[str, ...] = ()
    provider: str = ""
    #: How many seconds are left from the moment when the mark appears, where nothing else tells the time.
    lead: float | None = None

    def matches(self, value: str) -> bool:
        """Whether a value of the key means this."""
        return not self.values or value.lower() in map(str.lower, self.values)


def _table(means: Means, place: Place, *rows: tuple[str, str, Sequence[str], float | None]) -> list[Mark]:
    return [
        Mark(means=means, place=place, provider=provider, key=key, values=tuple(values), lead=lead)
        for provider, key, values, lead in rows
    ]


#: What clouds, autoscalers and termination handlers are known to write.
BUILTIN: Final[Sequence[Mark]] = (
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
        ("", "rota.dev/terminating", [], 120.0),
        ("aws", "aws-node-termination-handler/spot-itn", [], 120.0),
        ("aws", "aws-node-termination-handler/asg-lifecycle-termination", [], 120.0),
        ("aws", "aws-node-termination-handler/scheduled-maintenance", [], 120.0),
        ("karpenter", "karpenter.sh/disrupted", [], 120.0),
        ("karpenter", "karpenter.sh/disruption", ["disrupting"], 120.0),
        ("gcp", "cloud.google.com/impending-node-termination", [], 30.0),
        ("azure", "remediator.aks.microsoft.com/unschedulable", [], 30.0),
        ("", "ToBeDeletedByClusterAutoscaler", [], 120.0),
        ("", "node.cloudprovider.kubernetes.io/shutdown", [], 0.0),
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
        ("aws", "aws-node-termination-handler/rebalance-recommendation", [], None),
        ("", "DeletionCandidateOfClusterAutoscaler", [], None),
    ),
    *_table(Means.RISK, Place.CONDITION, ("azure", "VMEventScheduled", ["True"], None)),
    *_table(
        Means.DEADLINE,
        Place.ANNOTATION,
        ("", "rota.dev/terminates-at", [], None),
        ("karpenter", "karpenter.sh/nodeclaim-termination-timestamp", [], None),
    ),
)


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """A user's file."""

    marks: list[Mark]
    #: Leave out what is built in.
    replace: bool = False


class Marks:
    """The table, looked up by place and key."""

    def __init__(self, marks: Iterable[Mark] = BUILTIN) -> None:
        self._by_key: Final[dict[tuple[Place, str], list[Mark]]] = {}
        for mark in marks:
            self._by_key.setdefault((mark.place, mark.key), []).append(mark)

    def find(self, place: Place, entries: Mapping[str, str]) -> Iterable[tuple[Mark, str]]:
        """The marks among entries of a place, each with its value."""
        for key, value in entries.items():
            for mark in self._by_key.get((place, key), ()):
                if mark.matches(value):
                    yield mark, value


def read(path: Path) -> Marks:
    """The built-in table with a user's marks in front, from YAML; UserError names what is wrong.

    marks:
    - {means: notice, place: taint, key: example.com/reclaim, provider: example, lead: 60}
    """
    try:
        document = msgspec.convert(_plain(yaml.safe_load(path.read_bytes())), _Document)
    except OSError as problem:
        raise errors.UserError(f"cannot read {path}: {problem.strerror}", "name a file with marks of nodes") from None
    except (yaml.YAMLError, msgspec.ValidationError) as problem:
        what = " ".join(str(problem).split())
        raise errors.UserError(f"{path}: {what}", f"a mark has {', '.join(Mark.__struct_fields__)}") from None
    return Marks([*document.marks, *(() if document.replace else BUILTIN)])


def _plain(value: Any) -> Any:
    """An empty file is one without marks."""
    return {"marks": []} if value is None else value
