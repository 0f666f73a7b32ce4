"""The ways in which a cluster drifts from what its scheduler would decide now, by name: one word for every room."""

from typing import Final

DRIFTS: Final = (
    "node-affinity",
    "taints",
    "pod-affinity",
    "spread",
    "duplicates",
    "crashes",
    "lifetime",
    "balance",
    "compact",
)
