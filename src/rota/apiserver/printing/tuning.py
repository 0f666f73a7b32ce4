"""Tuning proposals: what they change, their evidence, and how far they have come."""

from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing.columns import NONE, Cells, Object, Printer, Printers, age, at, columns, items, name


def _proposal(obj: Object, now: float) -> Cells:
    changes = [
        f"{'.'.join(filter(None, (one.get('plugin'), one.get('argument'))))}: "
        f"{one.get('from', 0):g} -> {one.get('to', 0):g}"
        for one in items(obj, "spec", "changes")
    ]
    condition: Object = next((one for one in items(obj, "status", "conditions") if one.get("type") == "InForce"), {})
    compared = items(obj, "spec", "evidence", "comparisons")
    worse = [str(one.get("figure")) for one in compared if one.get("verdict") == "worse"]
    steps = at(obj, "spec", "steps")
    return [
        name(obj),
        at(obj, "spec", "schedulerName") or "default-scheduler",
        at(obj, "status", "phase") or "Proposed",
        f"{at(obj, 'status', 'step') or 0}/{4 if steps is None else steps}",
        _goal(obj, compared),
        ",".join(worse) or NONE,
        condition.get("reason") or NONE,
        age(obj, now),
        ", ".join(changes),
        at(obj, "spec", "approvedBy") or NONE,
        condition.get("message") or "",
    ]


def _goal(obj: Object, compared: list[Object]) -> str:
    goal = at(obj, "spec", "evidence", "goal")
    found: Object = next((one for one in compared if one.get("figure") == goal), {})
    before, difference = found.get("before"), found.get("difference")
    if not goal or not before or difference is None:
        return NONE
    return f"{goal} {100 * difference / abs(before):+.1f}%"


PRINTERS: Final[Printers] = {
    GroupResource("rota.dev", "tuningproposals"): Printer(
        columns=columns("""
            Name        | string name | The name of the proposal.
            Profile     | string      | The profile of the scheduler that it changes.
            Phase       | string      | How far it has come.
            Step        | string      | The step that is in force, of how many.
            Goal        | string      | What the simulation says about its goal.
            Worse       | string      | What gets worse in the simulation.
            Reason      | string      | Why it is where it is, in one word.
            Age         | string      | How long the proposal has existed.
            Changes     | string wide | The numbers that change.
            Approved By | string wide | The user that approved it.
            Message     | string wide | The reason in words.
        """),
        cells=_proposal,
    ),
}
