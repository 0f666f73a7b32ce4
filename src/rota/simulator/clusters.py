"""Clusters written out in a line: `5000x cpu=32,memory=128Gi,zone=a` as nodes. Pure."""

import re
from collections.abc import Iterable
from typing import Any, Final

from rota.api import quantities
from rota.kit.errors import UserError

_SHAPE: Final = re.compile(r"(?:(?P<pool>[a-z][a-z0-9-]*):)?(?P<number>\d+)\s*x\s*(?P<amounts>.+)", re.DOTALL)
_PODS: Final = "110"
_MOST: Final = 1_000_000


def nodes(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Nodes of several lines; names are node-0, node-1, … or those of the pool that the line names.

    A line is `[POOL:]NUMBERxNAME=AMOUNT,…`; a name with a dot or slash that has no amount is a label, as is `zone`.
    """
    found: list[dict[str, Any]] = []
    for line in lines:
        matched = _SHAPE.fullmatch(line.strip().strip('"'))
        if matched is None:
            raise UserError(f'"{line}" does not say what nodes there are', "write 100xcpu=32,memory=128Gi")
        pool = matched["pool"] or "node"
        allocatable, labels = amounts(matched["amounts"])
        begin = len(found)
        number = int(matched["number"])
        if begin + number > _MOST:
            raise UserError(f'"{line}" has too many nodes', f"the limit is {_MOST:,}")
        for position in range(begin, begin + number):
            name = f"{pool}-{position}"
            marks = {"kubernetes.io/hostname": name, **({"pool": pool} if matched["pool"] else {}), **labels}
            found.append({"metadata": {"name": name, "labels": marks}, "status": {"allocatable": dict(allocatable)}})
    return found


def amounts(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Resources and labels of `cpu=4,memory=8Gi,zone=a`."""
    allocatable: dict[str, str] = {"pods": _PODS}
    labels: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().strip('"').partition("=")
        if not equals or not name or not value:
            raise UserError(f'"{part}" is no amount', "write name=amount, such as cpu=32")
        if name == "zone":
            labels["topology.kubernetes.io/zone"] = value
            continue
        try:
            amount = quantities.milli(value)
        except ValueError:
            labels[name] = value
            continue
        if amount < 0:
            raise UserError(f'"{part}" is negative', "write an amount of 0 or more")
        allocatable["nvidia.com/gpu" if name == "gpu" else name] = value
    return allocatable, labels


def pod(text: str, *, name: str = "pod", namespace: str = "default", priority: int | None = None) -> dict[str, Any]:
    """A pod of `cpu=1,memory=2Gi`; other words are node labels that it needs."""
    requests, selector = amounts(text) if text else ({}, {})
    requests.pop("pods", None)
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if selector:
        spec["nodeSelector"] = selector
    if priority is not None:
        spec["priority"] = priority
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
