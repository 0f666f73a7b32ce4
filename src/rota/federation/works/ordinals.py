"""Disjoint ordinals of a StatefulSet that is divided over clusters.

A template with the annotation `federation.rota.dev/ordinal-block: "100"` has a block of so many ordinals in each
cluster: 0 to 99 in the first, 100 to 199 in the second. A cluster keeps its block for as long as the binding exists, so
that names, claims and addresses of replicas stay when others are added, removed or moved.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import meta
from rota.federation.interpreters import trees

Object: TypeAlias = Mapping[str, Any]

BLOCK: Final = "federation.rota.dev/ordinal-block"
#: On the binding: the number of each cluster's block.
BLOCKS: Final = "federation.rota.dev/ordinal-blocks"
_KIND: Final = ("apps/v1", "StatefulSet")


class WrongBlock(ValueError):
    """The size of blocks cannot be used, or a cluster has more replicas than fit into one."""


def block_size(resource: Object) -> int | None:
    """How many ordinals a cluster has; None if the resource does not ask for disjoint ones."""
    given = meta.annotations(resource).get(BLOCK)
    if given is None or (resource.get("apiVersion"), resource.get("kind")) != _KIND:
        return None
    if not given.isascii() or not given.isdigit() or not 0 < int(given) <= 1_000_000:
        raise WrongBlock(f"annotation {BLOCK} is {given!r}; write a number of ordinals, such as 100")
    return int(given)


def blocks(binding: Object) -> dict[str, int]:
    """The blocks that clusters have."""
    try:
        found = msgspec.json.decode(meta.annotations(binding).get(BLOCKS) or "{}", type=dict[str, int])
    except msgspec.MsgspecError:
        return {}
    return found


def assigned(present: Mapping[str, int], clusters: Iterable[str]) -> dict[str, int]:
    """The blocks with one for each cluster: the lowest number that no cluster has, in the order of names."""
    found = dict(present)
    for name in sorted(set(clusters) - found.keys()):
        taken = set(found.values())
        found[name] = next(number for number in range(len(taken) + 1) if number not in taken)
    return found


def placed(resource: dict[str, Any], cluster: str, size: int, numbers: Mapping[str, int]) -> None:
    """Set the first ordinal of the StatefulSet in a cluster."""
    replicas = int(trees.get(resource, "spec", "replicas") or 0)
    if replicas > size:
        raise WrongBlock(f"{replicas} replicas do not fit into a block of {size}; raise the annotation {BLOCK}")
    own = int(trees.get(resource, "spec", "ordinals", "start") or 0)
    trees.put(resource, own + numbers[cluster] * size, "spec", "ordinals", "start")
