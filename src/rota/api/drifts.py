"""Names of the ways in which placements drift from what the scheduler would decide now."""

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
