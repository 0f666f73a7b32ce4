"""Scenarios of batch scheduling: a configuration, objects and a time as JSON, and the decision."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import PodInterner
from rota.scheduler.batch import conf, objects, outcomes, quiet_groups, registry, snapshots
from rota.scheduler.batch.outcomes import Outcome
from rota.scheduler.batch.states import Ask
from rota.scheduler.batch.times import seconds

#: By group and kind, the section of a scenario.
_KINDS: Final = {
    ("", "Node"): "nodes",
    ("", "Pod"): "pods",
    ("", "ResourceQuota"): "resourceQuotas",
    ("scheduling.k8s.io", "PriorityClass"): "priorityClasses",
    ("policy", "PodDisruptionBudget"): "pdbs",
    ("scheduling.volcano.sh", "PodGroup"): "podGroups",
    ("scheduling.volcano.sh", "Queue"): "queues",
    ("topology.volcano.sh", "HyperNode"): "hyperNodes",
    ("nodeinfo.volcano.sh", "Numatopology"): "numatopologies",
    ("metrics.k8s.io", "NodeMetrics"): "nodeMetrics",
}


def is_batch(document: Mapping[str, Any]) -> bool:
    """Whether a scenario is about batch scheduling."""
    return "conf" in document or "podGroups" in document


def from_dump(objects: Iterable[tuple[str, Mapping[str, Any]]], *, conf: str, now: str) -> dict[str, Any]:
    """Give the scenario of a cluster's objects, each with a path; kinds that sessions do not read are left out."""
    sections: dict[str, list[Mapping[str, Any]]] = {section: [] for section in _KINDS.values()}
    for path, each in objects:
        kind = each.get("kind")
        if not isinstance(kind, str) or not kind:
            raise MalformedObjectError(f"{path}.kind", "is required")
        section = _KINDS.get((str(each.get("apiVersion", "")).rpartition("/")[0], kind))
        if section is not None:
            sections[section].append(each)
    return {"conf": conf, "now": now, **sections}


def decide(document: Mapping[str, Any], *, quick: bool = False, ask: Ask | None = None) -> Outcome:
    """Run one session on a scenario; see `State` for `ask`.

    A `quick` session runs as passes of a live scheduler do: it keeps what it knows of shapes (see `Session`), and has
    only the sums of quiet groups.
    """
    text = document.get("conf", conf.DEFAULT)
    if not isinstance(text, str):
        raise MalformedObjectError("conf", "expected a text")
    lists = {section: _listed(document, section) for section in objects.KINDS}
    now = _time(document.get("now"))
    state = snapshots.build(
        nodes=lists["nodes"],
        pods=lists["pods"],
        groups=lists["podGroups"],
        queues=lists["queues"],
        priority_classes=lists["priorityClasses"],
        hypernodes=lists["hyperNodes"],
        quotas=lists["resourceQuotas"],
        budgets=lists["pdbs"],
        metrics=lists["nodeMetrics"],
        topologies=lists["numatopologies"],
        now=now,
        interner=PodInterner(),
    )
    state.ask = ask
    if quick:
        state.active, state.quiet = quiet_groups.split(state.jobs)
    return outcomes.of(registry.run(state, conf.parse(text, registry.KNOWN), quick=quick))


def _time(text: object) -> float:
    try:
        return seconds(text) if isinstance(text, str) else 0.0
    except ValueError as error:
        raise MalformedObjectError("now", str(error)) from None


def _listed(document: Mapping[str, Any], section: str) -> list[dict[str, Any]]:
    items = document.get(section)
    if items is None:
        return []
    if not isinstance(items, list):
        raise MalformedObjectError(section, "expected a list")
    for position, item in enumerate(items):
        place = f"{section}[{position}]"
        if not isinstance(item, dict):
            raise MalformedObjectError(place, "expected an object")
        objects.check(section, item, place)
    return items
