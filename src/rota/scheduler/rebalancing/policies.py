"""What a RebalancePolicy says, and what is written into it. Pure.

The policy is also the memory: pods that moved within an hour stand in its status, entered before they are evicted, so
that whoever leads counts what others have moved, and a leader that dies in between has moved fewer than it is said,
never more.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta, times
from rota.api.meta import Object
from rota.client.paths import Target
from rota.scheduler.rebalancing.rebalance_plan import USUAL, DriftMeasurement, Move, Plan, Settings, Strategy

POLICIES: Final[Target] = ("rota.dev", "v1alpha1", "rebalancepolicies")
#: The only one that there can be.
NAME: Final = "cluster"
_HOUR_S: Final = 3600.0
_INTERVAL_S: Final = 600.0
_STAYS: Final = 50
_PLANNED: Final = "Planned"
#: Numbers of a policy, and the settings that they are.
_NUMBERS: Final = {
    "mostAtOnce": "most_at_once",
    "mostPerHour": "most_per_hour",
    "mostPerNamespace": "most_per_namespace",
    "mostPerNode": "most_per_node",
    "mostRestarts": "most_restarts",
    "oldestSeconds": "oldest_s",
    "priorityBelow": "priority_below",
    "youngestSeconds": "youngest_s",
}
_SHARES: Final = {"emptyBelow": "empty_below", "fullAbove": "full_above"}


def settings_of(policy: Object) -> Settings:
    """A policy as settings; whatever it does not say is as usual."""
    spec = policy.get("spec") or {}
    said: dict[str, Any] = {ours: spec[name] for name, ours in _NUMBERS.items() if spec.get(name) is not None}
    said |= {ours: spec[name] / 100 for name, ours in _SHARES.items() if spec.get(name) is not None}
    return Settings(
        strategies=tuple(map(Strategy, spec.get("strategies") or ())) or USUAL,
        jobs=bool(spec.get("jobs")),
        local_storage=bool(spec.get("localStorage")),
        by_usage=spec.get("by") == "usage",
        **said,
    )


def is_at_rest(policy: Object | None) -> bool:
    """Whether nothing is to be planned for now."""
    return policy is None or bool((policy.get("spec") or {}).get("suspend")) or meta.is_deleting(policy)


def is_dry(policy: Object) -> bool:
    """Whether nothing is to be moved."""
    return bool((policy.get("spec") or {}).get("dryRun"))


def wait_s(policy: Object, *, now: float) -> float:
    """How long until the next plan is due; one that moved nothing does not hold up a policy that was changed since."""
    interval = float((policy.get("spec") or {}).get("intervalSeconds") or _INTERVAL_S)
    status = policy.get("status") or {}
    last = status.get("lastRunTime")
    changed = status.get("observedGeneration") != policy["metadata"].get("generation")
    if not last or (changed and not any(times.parse(one["time"]) >= _last(status) for one in recent(policy, now=now))):
        return 0.0
    # a clock that was put back must not have everybody wait
    return min(interval, max(0.0, times.parse(last) + interval - now))


def recent(policy: Object, *, now: float) -> list[Object]:
    """Moves that count against the hour."""
    return [
        one
        for one in (policy.get("status") or {}).get("moves") or ()
        if not one.get("refusal") and not one.get("dryRun") and times.parse(one["time"]) > now - _HOUR_S
    ]


def planned(policy: Object, plan: Plan, *, settings: Settings, now: float) -> dict[str, Any]:
    """The policy with a plan in its status, whose moves are about to be carried out."""
    before = recent(policy, now=now)
    dry = is_dry(policy)
    if plan.moves:
        reason, message = "Moving", f"{len(plan.moves)} pods {'would be' if dry else 'are'} moved"
    elif len(before) >= settings.most_per_hour:
        reason, message = "EnoughForNow", f"{len(before)} pods have moved within an hour"
    else:
        reason, message = "NothingToMove", "every pod that could move is where the scheduler would put it"
    moves = [*before, *(_entry(move, dry=dry, now=now) for move in plan.moves)]
    return _with_status(
        policy,
        now=now,
        condition={"status": "True", "reason": reason, "message": message},
        lastRunTime=times.format_micro_time(now),
        before=_figures(plan.before),
        after=_figures(plan.after),
        moves=moves,
        stays=[{"pod": pod, "why": why} for pod, why in sorted(plan.stays.items())[:_STAYS]],
    )


def refused(policy: Object, refusals: Mapping[str, str], *, now: float) -> dict[str, Any]:
    """The policy once moves are carried out: those that were not, by uid, are not counted."""
    status = policy.get("status") or {}
    moves = [
        {**one, "refusal": refusals[one["uid"]]} if one.get("uid") in refusals and not one.get("refusal") else one
        for one in status.get("moves") or ()
    ]
    count = sum(not one.get("refusal") for one in moves if times.parse(one["time"]) >= _last(status))
    message = f"{count} pods were moved, {len(refusals)} could not be"
    return _with_status(
        policy, now=now, condition={"status": "True", "reason": "Moved", "message": message}, moves=moves
    )


def failed(policy: Object, reason: str, message: str, *, now: float) -> dict[str, Any]:
    """The policy when no plan could be made."""
    return _with_status(
        policy,
        now=now,
        condition={"status": "False", "reason": reason, "message": message},
        lastRunTime=times.format_micro_time(now),
        moves=recent(policy, now=now),
    )


def _last(status: Mapping[str, Any]) -> float:
    """When the latest plan was made, to the second as moves have it; of a policy that is new, before all moves."""
    last = status.get("lastRunTime")
    return float(int(times.parse(last))) if last else 0.0


def _with_status(policy: Object, *, now: float, condition: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    generation = policy["metadata"].get("generation") or 0
    status = {**(policy.get("status") or {}), **fields, "observedGeneration": generation}
    status["conditions"] = meta.with_condition(
        meta.conditions(policy),
        {"type": _PLANNED, **condition, "observedGeneration": generation},
        now=times.format_time(now),
    )
    return {**policy, "status": status}


def _entry(move: Move, *, dry: bool, now: float) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "namespace": move.namespace,
        "name": move.name,
        "uid": move.uid,
        "from": move.source,
        "to": move.target,
        "drift": move.strategy.value,
        "why": move.why,
        "scoreAfter": move.score_after,
        "time": times.format_time(now),
    }
    if move.score_before is not None:
        entry["scoreBefore"] = move.score_before
    return {**entry, "dryRun": True} if dry else entry


def _figures(figures: DriftMeasurement) -> dict[str, Any]:
    return {
        "misplacedPods": figures.violations,
        "duplicates": figures.duplicates,
        "unevenness": round(figures.unevenness, 6),
        "nodesInUse": figures.nodes_in_use,
    }
