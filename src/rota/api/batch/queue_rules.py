"""Defaults and validation of Queues and of their hierarchy: the rules of upstream's webhooks. Pure.

Queues form a tree below `root`. A queue promises its children no more than it has; only leaves hold work.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import fields, meta, quantities
from rota.api.batch import kinds
from rota.api.quantities import Quantity

Object: TypeAlias = Mapping[str, Any]
Found: TypeAlias = list[fields.FieldError]

OPEN: Final = "Open"
CLOSED: Final = "Closed"
CLOSING: Final = "Closing"
UNKNOWN: Final = "Unknown"
#: The longest way from the root to a leaf.
MAX_DEPTH: Final = 10
HIERARCHY: Final = "volcano.sh/hierarchy"
WEIGHTS: Final = "volcano.sh/hierarchy-weights"
_SPEC: Final = fields.Path("spec")
_ANNOTATIONS: Final = fields.Path("metadata").child("annotations")


def set_defaults(queue: dict[str, Any]) -> None:
    """Fill in what a queue leaves out."""
    spec = queue.setdefault("spec", {})
    spec["weight"] = spec.get("weight") or 1
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    if not spec.get("parent") and meta.name(queue) != kinds.ROOT_QUEUE:
        spec["parent"] = kinds.ROOT_QUEUE
    annotations = queue.get("metadata", {}).get("annotations") or {}
    path, weights = annotations.get(HIERARCHY), annotations.get(WEIGHTS)
    if path and weights and path != kinds.ROOT_QUEUE and not path.startswith(f"{kinds.ROOT_QUEUE}/"):
        annotations[HIERARCHY], annotations[WEIGHTS] = f"{kinds.ROOT_QUEUE}/{path}", f"1/{weights}"


def check(queue: Object, queues: Mapping[str, Object], old: Object | None = None) -> Found:
    """All errors of a new or changed queue; `queues` has the queues of the cluster by name."""
    name, spec = meta.name(queue), queue.get("spec") or {}
    others = {other: one for other, one in queues.items() if other != name}
    found: Found = []
    if (spec.get("weight") or 0) <= 0:
        found.append(fields.invalid(_SPEC.child("weight"), spec.get("weight") or 0, "must be a positive integer"))
    found += _check_amounts(spec)
    found += _check_annotations(queue, others)
    if name == kinds.ROOT_QUEUE:
        if spec.get("parent"):
            found.append(fields.forbidden(_SPEC.child("parent"), "the root queue has no parent"))
        return found
    problems = _check_parent(queue, others, old)
    return found + (problems or _check_family(queue, others))


def check_delete(queue: Object, queues: Mapping[str, Object]) -> str:
    """Why a queue may not be deleted; empty if it may."""
    name = meta.name(queue)
    if name in (kinds.ROOT_QUEUE, kinds.DEFAULT_QUEUE):
        return f"{name} queue can not be deleted"
    children = _children(name, queues)
    if children:
        return f"queue {name} can not be deleted because it has {len(children)} child queues: {', '.join(children[:5])}"
    state = (queue.get("status") or {}).get("state") or OPEN
    if state != CLOSED:
        return f"only queue with state Closed can be deleted, queue {name} is {state}: close it first"
    return ""


def ancestors(name: str, queues: Mapping[str, Object]) -> list[str]:
    """The parents of a queue up to the root, nearest first; ends early at a queue that is missing or seen before."""
    found: list[str] = []
    queue = queues.get(name)
    while queue is not None:
        parent = (queue.get("spec") or {}).get("parent") or ""
        if not parent or parent in found or parent == name:
            break
        found.append(parent)
        queue = queues.get(parent)
    return found


def _children(name: str, queues: Mapping[str, Object]) -> list[str]:
    return sorted(other for other, one in queues.items() if (one.get("spec") or {}).get("parent") == name)


def _check_amounts(spec: Object) -> Found:
    """Each resource: guarantee <= deserved <= capability, none negative."""
    guarantee, deserved, capability = _amounts(spec)
    found: Found = []
    for path, amounts in (
        (_SPEC.child("guarantee", "resource"), guarantee),
        (_SPEC.child("deserved"), deserved),
        (_SPEC.child("capability"), capability),
    ):
        for name, amount in amounts.items():
            if amount < Quantity(0):
                found.append(fields.invalid(path.key(name), str(amount), "must be greater than or equal to 0"))
    pairs = (
        ("deserved", deserved, "capability", capability),
        ("guarantee", guarantee, "capability", capability),
        ("guarantee", guarantee, "deserved", deserved),
    )
    for small, few, large, many in pairs:
        for name, amount in few.items():
            if name in many and many[name] < amount:
                why = f"must not exceed {large} ({many[name]})"
                found.append(fields.invalid(_SPEC.child(small).key(name), str(amount), why))
    return found


def _amounts(spec: Object) -> tuple[dict[str, Quantity], ...]:
    guarantee = (spec.get("guarantee") or {}).get("resource")
    return tuple(
        {name: quantities.from_wire(value) for name, value in (part or {}).items()}
        for part in (guarantee, spec.get("deserved"), spec.get("capability"))
    )


def _check_parent(queue: Object, others: Mapping[str, Object], old: Object | None) -> Found:
    name, parent = meta.name(queue), (queue.get("spec") or {}).get("parent") or kinds.ROOT_QUEUE
    at = _SPEC.child("parent")
    if parent == name:
        return [fields.invalid(at, parent, "a queue can not be its own parent")]
    if parent not in others:
        return [fields.invalid(at, parent, "there is no such queue")]
    above = [parent, *ancestors(parent, {**others, name: queue})]
    if name in above:
        return [fields.invalid(at, parent, f"queues form a cycle: {' -> '.join([name, *above])}")]
    if len(above) >= MAX_DEPTH:
        return [fields.invalid(at, parent, f"queues are nested at most {MAX_DEPTH} deep")]
    moved = old is None or ((old.get("spec") or {}).get("parent") or kinds.ROOT_QUEUE) != parent
    upper = others[parent]
    state = (upper.get("status") or {}).get("state") or OPEN
    if moved and state in (CLOSED, CLOSING):
        return [fields.forbidden(at, f"queue {parent} is {state}: open it first")]
    if moved and parent != kinds.ROOT_QUEUE and not _children(parent, others) and _holds_work(upper):
        return [fields.forbidden(at, f"queue {parent} has pods, so it can not become a parent: drain it first")]
    return []


def _holds_work(queue: Object) -> bool:
    status = queue.get("status") or {}
    return any(quantities.from_wire(value).nanos > 0 for value in (status.get("allocated") or {}).values())


def _check_family(queue: Object, others: Mapping[str, Object]) -> Found:
    """A queue against its ancestors and siblings, and against its children."""
    spec, family = queue.get("spec") or {}, {**others, meta.name(queue): queue}
    found: Found = []
    _, _, capability = _amounts(spec)
    for upper in ancestors(meta.name(queue), family):
        _, _, bound = _amounts((family.get(upper) or {}).get("spec") or {})
        for name, amount in capability.items():
            if name in bound and bound[name] < amount:
                why = f"must not exceed the capability of {upper} ({bound[name]})"
                found.append(fields.invalid(_SPEC.child("capability").key(name), str(amount), why))
    parent = spec.get("parent") or kinds.ROOT_QUEUE
    if parent != kinds.ROOT_QUEUE:
        found += _check_sums(parent, family)
    return found + _check_sums(meta.name(queue), family)


def _check_sums(parent: str, family: Mapping[str, Object]) -> Found:
    """The guarantees, and the deserved resources, of children are within those of their parent."""
    children = _children(parent, family)
    bounds = _amounts((family.get(parent) or {}).get("spec") or {})
    found: Found = []
    for position, what in enumerate(("guarantee", "deserved")):
        total: dict[str, Quantity] = {}
        for child in children:
            for name, amount in _amounts(family[child].get("spec") or {})[position].items():
                total[name] = total[name] + amount if name in total else amount
        for name, amount in total.items():
            bound = bounds[position].get(name, bounds[2].get(name))
            if bound is not None and bound < amount:
                why = f"the children of {parent} have {amount} together, more than its {bound}"
                found.append(fields.invalid(_SPEC.child(what).key(name), str(amount), why))
    return found


def _check_annotations(queue: Object, others: Mapping[str, Object]) -> Found:
    annotations = meta.annotations(queue)
    path, weights = annotations.get(HIERARCHY), annotations.get(WEIGHTS)
    if not path and not weights:
        return []
    parts, shares = (path or "").split("/"), (weights or "").split("/")
    at = _ANNOTATIONS.key(WEIGHTS)
    if len(parts) != len(shares):
        return [fields.invalid(at, weights or "", f"must have one weight for each part of {path or ''}")]
    found = [fields.invalid(at, one, "must be a positive number") for one in shares if not _is_positive(one)]
    for other, one in others.items():
        known = meta.annotations(one).get(HIERARCHY)
        if known and (known == path or known.startswith(f"{path}/")):
            why = f"is queue {other}, or above it"
            found.append(fields.invalid(_ANNOTATIONS.key(HIERARCHY), path or "", why))
    return found


def _is_positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False
