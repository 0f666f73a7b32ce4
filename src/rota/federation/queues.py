"""Queues of a federation: which waiting bindings are admitted to scheduling, in which order. Pure.

A FederatedQueue limits what its workloads request in all clusters together. A workload joins one by a label; its
binding then begins with suspended scheduling, as upstream provides for external queues, until the queue has room for
all its replicas at once. The order is that of priorities, then of time. A binding that does not fit yet holds up those
behind it, so that a large one is not overtaken forever; one that could never fit holds up none.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from rota.api import meta
from rota.federation import bindings, quotas

Object: TypeAlias = Mapping[str, Any]

#: On a workload: the name of its queue. On a binding: the same, as an annotation.
QUEUE: Final = "federation.rota.dev/queue"
_ENDED: Final = frozenset({"Complete", "Failed"})
#: Final phases of jobs of Volcano.
_FINAL: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


class Admission(NamedTuple):
    """What a queue does now."""

    #: Bindings to admit, in order.
    admitted: list[Object]
    #: Why each of the others waits.
    waiting: list[tuple[Object, str]]
    #: How many bindings have room in the queue, those included that are admitted now, and what they use.
    running: int
    used: dict[str, int]


def of_binding(binding: Object) -> str:
    """The queue of a binding; empty if it has none."""
    return meta.annotations(binding).get(QUEUE) or ""


def is_waiting(binding: Object) -> bool:
    """Whether scheduling is suspended."""
    return bool(((binding.get("spec") or {}).get("suspension") or {}).get("scheduling"))


def admission(queue: Object, members: Iterable[Object]) -> Admission:
    """Decide about the bindings of a queue."""
    spec: Object = queue.get("spec") or {}
    capacity = {name: quotas.units(name, amount) for name, amount in (spec.get("capacity") or {}).items()}
    present = [binding for binding in members if not meta.is_deleting(binding)]
    running = [binding for binding in present if not is_waiting(binding) and not is_finished(binding)]
    used: dict[str, int] = {}
    for binding in running:
        _add(used, usage(binding.get("spec") or {}))
    admitted: list[Object] = []
    waiting: list[tuple[Object, str]] = []
    name, is_held_up = meta.name(queue), False
    for binding in sorted(filter(is_waiting, present), key=_order):
        wanted = usage(binding.get("spec") or {})
        never = _lacking(capacity, wanted, {})
        lacking = _lacking(capacity, wanted, used)
        if spec.get("suspended"):
            waiting.append((binding, f"queue {name} is suspended"))
        elif never:
            waiting.append((binding, f"asks for more {never} than queue {name} has; lower the requests or raise it"))
        elif is_held_up:
            waiting.append((binding, f"waits in queue {name} behind others"))
        elif lacking:
            is_held_up = True
            waiting.append((binding, f"waits until queue {name} has enough {lacking}"))
        else:
            admitted.append(binding)
            _add(used, wanted)
    return Admission(admitted, waiting, len(running) + len(admitted), used)


def usage(spec: Object) -> dict[str, int]:
    """What a binding takes of a queue: that of its clusters, or before it has any, that of all its replicas once."""
    if bindings.targets(spec):
        return quotas.usage(spec)
    return quotas.usage({**spec, "clusters": [{"name": "", "replicas": bindings.replicas(spec)}]})


def is_finished(binding: Object) -> bool:
    """Whether a job has ended in all its clusters, so that it uses nothing any more."""
    clusters = {one.get("name") for one in bindings.targets(binding.get("spec") or {})}
    items = (binding.get("status") or {}).get("aggregatedStatus") or ()
    ended = {one.get("clusterName") for one in items if _has_ended(one.get("status"))}
    return bool(clusters) and clusters <= ended


def _has_ended(status: Any) -> bool:
    if not isinstance(status, Mapping):
        return False
    conditions, state = status.get("conditions"), status.get("state")
    listed = conditions if isinstance(conditions, Sequence) else ()
    is_done = any(
        isinstance(one, Mapping) and one.get("type") in _ENDED and one.get("status") == "True" for one in listed
    )
    return is_done or (isinstance(state, Mapping) and state.get("phase") in _FINAL)


def _order(binding: Object) -> tuple[int, str, str]:
    priority = ((binding.get("spec") or {}).get("schedulePriority") or {}).get("priority") or 0
    return -int(priority), str(meta.metadata(binding).get("creationTimestamp") or ""), meta.qualified_name(binding)


def _lacking(capacity: Mapping[str, int], wanted: Mapping[str, int], used: Mapping[str, int]) -> str:
    """The first resource that is limited and does not suffice."""
    return next(
        (name for name in sorted(wanted) if name in capacity and used.get(name, 0) + wanted[name] > capacity[name]), ""
    )


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
