"""Rebalance policies and their results."""

from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations
from rota.apiserver.printing.columns import NONE, Cells, Object, Printer, Printers, age, at, columns, items, name


def _policy(obj: Object, now: float) -> Cells:
    last = at(obj, "status", "lastRunTime")
    moved = [one for one in items(obj, "status", "moves") if not one.get("refusal") and not one.get("dryRun")]
    planned: Object = next((one for one in items(obj, "status", "conditions") if one.get("type") == "Planned"), {})
    return [
        name(obj),
        _mode(obj),
        durations.since(last, now) if last else NONE,
        len(moved),
        at(obj, "status", "before", "misplacedPods") or 0,
        planned.get("reason") or NONE,
        age(obj, now),
        planned.get("message") or "",
    ]


def _mode(obj: Object) -> str:
    if at(obj, "spec", "suspend"):
        return "Suspended"
    return "DryRun" if at(obj, "spec", "dryRun") else "Active"


PRINTERS: Final[Printers] = {
    GroupResource("rota.dev", "rebalancepolicies"): Printer(
        columns=columns("""
            Name      | string name | The name of the policy.
            Mode      | string      | Whether pods are moved, or only reported.
            Last Run  | string      | How long ago the latest plan was made.
            Moved     | integer     | How many pods have moved within an hour.
            Misplaced | integer     | Pods that the latest plan found where no scheduler would put them.
            Outcome   | string      | What the latest plan came to, in one word.
            Age       | string      | How long the policy has existed.
            Message   | string wide | The same in words.
        """),
        cells=_policy,
    ),
}
