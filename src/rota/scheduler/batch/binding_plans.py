"""The plan of a gang that cannot be bound in one transaction: which pod gets which node.

The plan is an annotation of the PodGroup. It is written before the first binding and removed after the last one, so a
PodGroup that has one may be bound in part. The leader that finds a plan finishes it, or releases the pods that were
bound if the rest finds no place.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

ANNOTATION: Final = "rota.dev/binding-plan"
#: Larger plans are not read: users may write annotations, and a few compressed bytes can stand for very many.
_LARGEST_BYTES: Final = 16 * 1024 * 1024


class _Plan(msgspec.Struct, frozen=True):
    """Nodes by position, and the position of each pod's node."""

    nodes: list[str]
    pods: dict[str, int]


_decode: Final = msgspec.json.Decoder(_Plan).decode


def encode(placed: Mapping[str, str]) -> str:
    """Give the annotation for nodes by the names of pods; about six bytes a pod."""
    nodes = sorted(set(placed.values()))
    position = {node: number for number, node in enumerate(nodes)}
    plan = _Plan(nodes, {pod: position[node] for pod, node in placed.items()})
    return base64.b64encode(zlib.compress(msgspec.json.encode(plan), 9)).decode()


def is_planned(group: Mapping[str, Any]) -> bool:
    """Whether a PodGroup has a plan."""
    return ANNOTATION in (group["metadata"].get("annotations") or {})


def read(group: Mapping[str, Any]) -> dict[str, str] | None:
    """Give the plan of a PodGroup: nodes by the names of pods; None without one.

    A plan that cannot be read is empty: what was bound of it is released unless the group is complete.
    """
    text = (group["metadata"].get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None
    try:
        plan = _decode(_decompressed(base64.b64decode(text, validate=True)))
        return {pod: plan.nodes[number] for pod, number in plan.pods.items()}
    except (binascii.Error, zlib.error, msgspec.MsgspecError, IndexError, ValueError):
        return {}


def _decompressed(compressed: bytes) -> bytes:
    inflater = zlib.decompressobj()
    found = inflater.decompress(compressed, _LARGEST_BYTES)
    if not inflater.eof:
        raise ValueError("the plan is too large, or its end is missing")
    return found
