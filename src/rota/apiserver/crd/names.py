"""Name conflicts of definitions, and the status conditions about them.

Names of resources (plural, singular, short) and of kinds must be unique in a group. Accepted names are kept; a new
definition that asks for one of them gets a condition and is not served. Pure: the present time is an argument.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.api import gotext, times
from rota.api.kinds import ResourceType
from rota.apiserver.crd.definitions import Definition, condition


@dataclass(slots=True)
class Claims:
    """The names of a group that are in use."""

    resources: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)

    def add(self, names: Mapping[str, Any]) -> None:
        """Add the accepted names of a definition."""
        self.resources.update(filter(None, (names.get("plural"), names.get("singular"), *_short(names))))
        self.kinds.update(filter(None, (names.get("kind"), names.get("listKind"))))


def claims(definition: Definition, others: Iterable[Definition], built_in: Iterable[ResourceType]) -> Claims:
    """The names in use in a definition's group by other definitions; the definition itself may be in the argument."""
    group, name = definition["spec"]["group"], definition["metadata"]["name"]
    found = Claims()
    for other in others:
        if other["spec"]["group"] == group and other["metadata"]["name"] != name:
            found.add((other.get("status") or {}).get("acceptedNames") or {})
    for kind in built_in:
        if kind.group == group and not kind.custom:
            found.resources.update((kind.plural, kind.singular, *kind.short_names))
            found.kinds.update((kind.kind, kind.list_kind))
    return found


def status(definition: Definition, taken: Claims, *, now: float) -> dict[str, Any]:
    """The status that a definition should have; equal to the present one if nothing is to be done."""
    wanted: Mapping[str, Any] = definition["spec"]["names"]
    present: Mapping[str, Any] = (definition.get("status") or {}).get("acceptedNames") or {}
    accepted, refusals = _accepted(wanted, present, taken)
    if refusals:
        # the last one is reported, as upstream does
        names_accepted = _condition("NamesAccepted", False, *refusals[-1])
    else:
        names_accepted = _condition("NamesAccepted", True, "NoConflicts", "no conflicts found")
    established: Mapping[str, Any] = condition(definition, "Established")
    if established.get("status") != "True":
        if refusals:
            established = _condition("Established", False, "NotAccepted", "not all names are accepted")
        else:
            message = "the initial names have been accepted"
            established = _condition("Established", True, "InitialNamesAccepted", message)
    return {
        **(definition.get("status") or {}),
        "acceptedNames": accepted,
        "conditions": with_conditions(definition, names_accepted, established, now=now),
    }


def with_conditions(definition: Definition, *fresh: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
    """The conditions of a definition with some of them set; a transition time changes only with its status."""
    listed = {one["type"]: dict(one) for one in (definition.get("status") or {}).get("conditions") or ()}
    for one in fresh:
        before = listed.get(one["type"], {})
        same = before.get("status") == one["status"] and "lastTransitionTime" in before
        time = before["lastTransitionTime"] if same else times.format_time(now)
        listed[one["type"]] = {**one, "lastTransitionTime": time}
    return list(listed.values())


def _accepted(
    wanted: Mapping[str, Any], present: Mapping[str, Any], taken: Claims
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The accepted names, and the reason and message of refused ones."""
    accepted = dict(present)
    refusals = []
    for name, reason, used in (
        ("plural", "PluralConflict", taken.resources),
        ("singular", "SingularConflict", taken.resources),
        ("shortNames", "ShortNamesConflict", taken.resources),
        ("kind", "KindConflict", taken.kinds),
        ("listKind", "ListKindConflict", taken.kinds),
    ):
        asked = _short(wanted) if name == "shortNames" else filter(None, (wanted.get(name),))
        own = _short(present) if name == "shortNames" else (present.get(name),)
        conflicts = [f"{gotext.quote(one)} is already in use" for one in asked if one not in own and one in used]
        if conflicts:
            message = conflicts[0] if len(conflicts) == 1 else f"[{', '.join(conflicts)}]"
            refusals.append((reason, message))
        elif wanted.get(name):
            accepted[name] = wanted[name]
        else:
            accepted.pop(name, None)
    accepted.pop("categories", None)
    return accepted | ({"categories": wanted["categories"]} if wanted.get("categories") else {}), refusals


def _short(names: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(names.get("shortNames") or ())


def _condition(type_: str, holds: bool, reason: str, message: str) -> dict[str, Any]:
    return {"type": type_, "status": "True" if holds else "False", "reason": reason, "message": message}
