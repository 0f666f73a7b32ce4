"""Rules of a CronFederatedHPA: which are due, and the history that the status keeps of them."""

import datetime as dt
import zoneinfo
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import cron, meta, times

Object: TypeAlias = Mapping[str, Any]

#: A time that passed longer ago, while no control plane ran, is not made up for.
LATE_S: Final = 60.0
_SLACK_S: Final = 0.05


class NoSchedule(ValueError):
    """A rule's schedule or time zone cannot be read; the message says why."""


def _schedule(rule: Object) -> tuple[cron.Schedule, dt.tzinfo]:
    name = rule.get("timeZone")
    try:
        return cron.parse(rule.get("schedule") or ""), dt.UTC if name is None else zoneinfo.ZoneInfo(name)
    except (cron.CronError, zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise NoSchedule(f"rule {rule.get('name')}: {error}") from error


def due(autoscaler: Object, rule: Object, now: float) -> float | None:
    """The scheduled time that has come and was not acted on; None if there is none."""
    if rule.get("suspend"):
        return None
    schedule, zone = _schedule(rule)
    since = max(times.parse(meta.metadata(autoscaler)["creationTimestamp"]), now - LATE_S)
    for kind in ("successfulExecutions", "failedExecutions"):
        for one in _history(autoscaler, rule).get(kind) or ():
            since = max(since, times.parse(one["scheduleTime"]))
    found, at = None, schedule.after(since, zone)
    while at is not None and at <= now:
        found, at = at, schedule.after(at, zone)
    return found


def next_after(rule: Object, now: float) -> float | None:
    """The next scheduled time; None if there is none, or the rule is suspended."""
    if rule.get("suspend"):
        return None
    schedule, zone = _schedule(rule)
    return schedule.after(now, zone)


def wait_s(rules: Sequence[Object], now: float) -> float | None:
    """Seconds until the next time of any rule."""
    following = [at for at in (next_after(rule, now) for rule in rules) if at is not None]
    return min(following) - now + _SLACK_S if following else None


def _history(autoscaler: Object, rule: Object) -> Object:
    histories = (autoscaler.get("status") or {}).get("executionHistories") or ()
    return next((one for one in histories if one.get("ruleName") == rule.get("name")), {})


def recorded(autoscaler: Object, rule: Object, execution: Object | None, *, failed: bool, now: float) -> dict[str, Any]:
    """The history of a rule after an execution, bounded by the rule's limits."""
    former = _history(autoscaler, rule)
    found: dict[str, Any] = {"ruleName": rule.get("name")}
    try:
        following = next_after(rule, now)
    except NoSchedule:
        following = None
    if following is not None:
        found["nextExecutionTime"] = times.format_time(following)
    for kind, limit, is_kind in (
        ("successfulExecutions", "successfulHistoryLimit", not failed),
        ("failedExecutions", "failedHistoryLimit", failed),
    ):
        newest = [execution] if execution is not None and is_kind else []
        kept = [*newest, *(former.get(kind) or ())][: int(rule.get(limit, 3))]
        if kept:
            found[kind] = kept
    return found
