"""ClusterStates: nodes, load and headroom."""

from typing import Any, Final

from rota.api import resources
from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations
from rota.apiserver.printing.columns import NONE, Cells, Object, Printer, Printers, age, at, columns, items, name


def _state(obj: Object, now: float) -> Cells:
    by_name = {each.get("resource"): each for each in items(obj, "status", "resources")}
    cpu, memory = by_name.get(resources.CPU) or {}, by_name.get(resources.MEMORY) or {}
    watts, seen = at(obj, "status", "power", "watts"), at(obj, "status", "observedTime")
    rooms = [f"{each.get('shape', '')}={each.get('pods', 0)}" for each in items(obj, "status", "headroom")]
    return [
        name(obj),
        f"{at(obj, 'status', 'nodes', 'schedulable') or 0}/{at(obj, 'status', 'nodes', 'total') or 0}",
        at(obj, "status", "pods", "placed") or 0,
        at(obj, "status", "pods", "pending") or 0,
        _share(resources.CPU, cpu, "requested"),
        _share(resources.MEMORY, memory, "requested"),
        ",".join(rooms) or NONE,
        _percent(cpu.get("fragmentation")),
        NONE if watts is None else f"{watts:g}W",
        durations.since(seen, now) if seen else NONE,
        age(obj, now),
        cpu.get("stranded") or NONE,
        memory.get("stranded") or NONE,
        _share(resources.CPU, cpu, "used"),
        _share(resources.CPU, cpu, "peak"),
    ]


def _share(resource: str, figures: Object, key: str) -> str:
    """A figure as a part of the allocatable amount."""
    if figures.get(key) is None:
        return NONE
    whole = resources.amount(resource, figures.get("allocatable"))
    return _percent(resources.amount(resource, figures[key]) / whole) if whole else NONE


def _percent(share: Any) -> str:
    return NONE if share is None else f"{100 * float(share):.0f}%"


PRINTERS: Final[Printers] = {
    GroupResource("rota.dev", "clusterstates"): Printer(
        columns=columns("""
            Name            | string name | The name of the state.
            Nodes           | string      | Nodes that take pods, of all.
            Pods            | integer     | Pods on them.
            Pending         | integer     | Pods without a node.
            CPU             | string      | Requested cpu, of what is allocatable.
            Memory          | string      | Requested memory, of what is allocatable.
            Headroom        | string      | How many more pods of each shape fit.
            Fragmented      | string      | The expected share of free cpu where a pod of the shapes does not fit.
            Power           | string      | Watts, if the object has models of power.
            Seen            | string      | How old the figures are.
            Age             | string      | How long the object has existed.
            Stranded CPU    | string wide | Free cpu on nodes where no shape fits.
            Stranded Memory | string wide | Free memory on nodes where no shape fits.
            CPU Used        | string wide | Measured cpu, of what is allocatable.
            CPU Peak        | string wide | Expected peak of cpu, of what is allocatable.
        """),
        cells=_state,
    ),
}
