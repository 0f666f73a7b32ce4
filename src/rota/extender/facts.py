"""The facts about one node that the extender uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.spot.node_readings import Reading


@dataclass(slots=True)
class NodeFacts:
    """One node."""

    name: str
    reading: Reading
    price: float | None
    zone: str
    region: str
    allocatable: Mapping[str, int]
    used: dict[str, int] = field(default_factory=dict)

    @property
    def load(self) -> float | None:
        """The higher share of cpu and memory, by requests; None for a node that has neither."""
        parts = [
            self.used.get(name, 0) / self.allocatable[name] for name in ("cpu", "memory") if self.allocatable.get(name)
        ]
        return max(parts) if parts else None
