"""RebalancePolicy: its settings, and the status that is written to it. Pure.

The status is also the memory: moves of the last hour are written there before the evictions, so that every leader
counts the moves of others. A leader that dies in between has moved fewer pods than the status says, never more.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta, times
from rota.api.meta import Object
from rota.client.paths import Target
from rota.scheduler.rebalancing.rebalance_plan import USUAL, DriftMeasurement, Move, Plan, Settings, Strategy

POLICIES: Final[Target] = ("rota.dev", "v1alpha1", "rebalancepolicies")
#: The name of the only policy.
NAME: Final = "cluster"
_HOUR_S: Final = 3600.0
_INTERVAL_S: Final = 600.0
_STAYS: Final = 50
_PLANNED: Final = "Planned"
#: Numeric fields of a policy, and their settings.
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
    """The settings of a policy; missing fields have their defaults."""
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
    """Whether no plan is to be made now."""
    return policy is None or bool((policy.get("spec") or {}).get("suspend")) or meta.is_deleting(policy)


def is_dry(policy: Object) -> bool:
    """Whether pods are not to be moved."""
    return bool((policy.get("spec") or {}).get("dryRun"))


def wait_s(policy: Object, *, now: float) -> float:
    """Seconds until the next plan is due; a plan without moves does not delay a policy that was changed since."""
    interval = float((policy.get("spec") or {}).get("intervalSeconds") or _INTERVAL_S)
    status = policy.get("status") or {}
    last = status.get("lastRunTime")
    changed = status.get("observedGeneration") != policy["metadata"].get("generation")
    if not last or (changed and not any(times.parse(one["time"]) >= _last(status) for one in recent(policy, now=now))):
        return 0.0
    # a clock that was set back must not delay the next plan
    return min(interval, max(0.0, times.parse(last) + interval - now))


def recent(policy: Object, *, now: float) -> list[Object]:
    """Moves that count against the hourly limit."""
    return [
        one
        for one in (policy.get("status") or {}).get("moves") or ()
        if not one.get("refusal") and not one.get("dryRun") and times.parse(one["time"]) > now - _HOUR_S
    ]


def planned(policy: Object, plan: Plan, *, settings: Settings, now: float) -> dict[str, Any]:
    """The policy with a plan in its status, before its moves are carried out."""
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
        before=_measurement(plan.before),
        after=_measurement(plan.after),
        moves=moves,
        stays=[{"pod": pod, "why": why} for pod, why in sorted(plan.stays.items())[:_STAYS]],
    )


def refused(policy: Object, refusals: Mapping[str, str], *, now: float) -> dict[str, Any]:
    """The policy after the moves: those that failed, by uid, are not counted."""
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
    """The policy after a plan could not be made."""
    return _with_status(
        policy,
        now=now,
        condition={"status": "False", "reason": reason, "message": message},
        lastRunTime=times.format_micro_time(now),
        moves=recent(policy, now=now),
    )


def _last(status: Mapping[str, Any]) -> float:
    """The time of the latest plan, in whole seconds as for moves; before all moves for a new policy."""
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


def _measurement(measured: DriftMeasurement) -> dict[str, Any]:
    return {
        "misplacedPods": measured.violations,
        "duplicates": measured.duplicates,
        "unevenness": round(measured.unevenness, 6),
        "nodesInUse": measured.nodes_in_use,
    }
