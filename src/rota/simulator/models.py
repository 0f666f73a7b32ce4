"""Models: what a trace does not say about time and chance. Each is a value, printed in every report. Pure.

A distribution is written as `fixed:60`, `uniform:1,5`, `exponential:300` (its mean) or `lognormal:300,1.5` (its median
and the deviation of the logarithm), in seconds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np

from rota.api import resources
from rota.kit.errors import UserError

_PARAMETERS: Final = {"fixed": 1, "uniform": 2, "exponential": 1, "lognormal": 2}


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of seconds."""

    kind: str
    parameters: tuple[float, ...]

    def draw(self, rng: np.random.Generator) -> float:
        """One value; a fixed one costs no random number."""
        first = self.parameters[0]
        match self.kind:
            case "fixed":
                return first
            case "uniform":
                return first + (self.parameters[1] - first) * float(rng.random())
            case "exponential":
                return first * float(rng.standard_exponential())
            case _:
                return first * math.exp(self.parameters[1] * float(rng.standard_normal()))

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(f'{value:g}' for value in self.parameters)}"


NOTHING: Final = Distribution("fixed", (0.0,))


def distribution(text: str) -> Distribution:
    """Read a distribution; a number alone is a fixed value."""
    kind, _, rest = text.partition(":") if ":" in text else ("fixed", "", text)
    try:
        values = tuple(float(value) for value in rest.split(","))
    except ValueError:
        values = ()
    if (
        kind not in _PARAMETERS
        or len(values) != _PARAMETERS[kind]
        or not all(0 <= value < math.inf for value in values)
    ):
        raise UserError(
            f'"{text}" is no distribution', "write fixed:60, uniform:1,5, exponential:300 or lognormal:300,1.5"
        )
    if kind == "uniform" and values[1] < values[0]:
        raise UserError(f'"{text}" is no distribution', "write the smaller bound first")
    return Distribution(kind, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Nodes that fail: the time between failures of one node, and how long it is away."""

    between: Distribution
    repair: Distribution

    def __str__(self) -> str:
        return f"every {self.between} s per node, back after {self.repair} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotNotices:
    """Spot nodes: which ones, the time between interruptions of one, the notice, and when a new one comes."""

    label: str
    value: str
    between: Distribution
    notice_s: float
    replacement: Distribution

    def __str__(self) -> str:
        return (
            f"nodes with {self.label}={self.value}, every {self.between} s per node, "
            f"{self.notice_s:g} s notice, replaced after {self.replacement} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """Nodes that come while pods wait for room and go when they are empty."""

    name: str
    allocatable: Mapping[str, str]
    most: int
    boot_s: float = 120.0
    idle_s: float = 600.0
    labels: Mapping[str, str] = field(default_factory=dict)

    def node(self, number: int) -> dict[str, Any]:
        """A node of the pool."""
        name = f"{self.name}-{number}"
        labels = {"kubernetes.io/hostname": name, **self.labels}
        return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": dict(self.allocatable)}}

    def amounts(self) -> dict[str, int]:
        """What a node has: cpu in thousandths, everything else in units."""
        return {name: resources.amount(name, value) for name, value in self.allocatable.items()}

    def __str__(self) -> str:
        return (
            f"{self.name}: up to {self.most} nodes, {self.boot_s:g} s to start, removed after {self.idle_s:g} s empty"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """All models of a simulation; the defaults add nothing to the trace."""

    #: How long pods run of which the trace does not say it; None: until the end.
    duration: Distribution | None = None
    #: From a decision to the bound pod, and how long an attempt takes.
    bind_latency: Distribution = NOTHING
    attempt: Distribution = NOTHING
    #: From an eviction until the pod is gone.
    grace: Distribution = NOTHING
    #: When the owner of a lost pod creates another; None: never.
    recreation: Distribution | None = None
    #: Whether only pods with a controller have such an owner.
    controllers_only: bool = False
    failures: Failures | None = None
    spot: SpotNotices | None = None
    pools: tuple[NodePool, ...] = ()
    #: Watts of a node without load and with all of its cpu allocated; whether a node without pods is off.
    idle_w: float = 100.0
    busy_w: float = 300.0
    empty_is_off: bool = False

    def document(self) -> dict[str, Any]:
        """For reports: each model in words."""
        told: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None or value == ():
                told[each.name] = "none"
            elif isinstance(value, tuple):
                told[each.name] = [str(one) for one in value]
            elif isinstance(value, bool | float):
                told[each.name] = value
            else:
                told[each.name] = str(value)
        return told
