"""Schedulers that share the pods of a cluster, and the map by which they do."""

from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations
from rota.apiserver.printing.columns import NONE, Cells, Object, Printer, Printers, age, at, columns, items, name


def _instance(obj: Object, now: float) -> Cells:
    told = at(obj, "status", "heartbeatTime")
    return [
        name(obj),
        at(obj, "spec", "shardOf") or "default",
        at(obj, "status", "phase") or "Waiting",
        at(obj, "status", "queuedPods") or 0,
        at(obj, "status", "boundPods") or 0,
        at(obj, "status", "conflicts") or 0,
        f"{float(at(obj, 'status', 'decisionsPerSecond') or 0):g}",
        f"{float(at(obj, 'status', 'load') or 0):.2f}",
        durations.since(told, now) if told else NONE,
        age(obj, now),
        at(obj, "spec", "host") or "",
        at(obj, "status", "observedEpoch") or 0,
    ]


def _shard_map(obj: Object, now: float) -> Cells:
    told = at(obj, "status", "changeTime")
    members = [one.get("name", "") for one in items(obj, "status", "members")]
    return [
        name(obj),
        len(members),
        at(obj, "status", "epoch") or 0,
        at(obj, "spec", "keepTogether") or "Owner",
        durations.since(told, now) if told else NONE,
        age(obj, now),
        ",".join(members),
    ]


PRINTERS: Final[Printers] = {
    GroupResource("rota.dev", "schedulerinstances"): Printer(
        columns=columns("""
            Name      | string name | The name of the scheduler.
            Shard Of  | string      | The shard map that it is a member of.
            Phase     | string      | Whether it decides the pods that the map gives it.
            Queue     | integer     | Pods that wait for its decision.
            Bound     | integer     | Pods that it has bound since its start.
            Conflicts | integer     | Bindings that were refused because another scheduler was faster.
            Per Sec   | string      | Decisions in the last seconds, per second.
            Load      | string      | Processor time in the last seconds, per second.
            Heard     | string      | How long ago it reported.
            Age       | string      | How long it has existed.
            Host      | string wide | The machine that it runs on.
            Epoch     | integer wide | The version of the map that it obeys.
        """),
        cells=_instance,
    ),
    GroupResource("rota.dev", "shardmaps"): Printer(
        columns=columns("""
            Name          | string name | The name of the map.
            Schedulers    | integer     | How many schedulers share the pods.
            Epoch         | integer     | The version of the map.
            Keep Together | string      | Which pods always have the same scheduler.
            Changed       | string      | How long ago the map changed.
            Age           | string      | How long the map has existed.
            Members       | string wide | The schedulers.
        """),
        cells=_shard_map,
    ),
}
