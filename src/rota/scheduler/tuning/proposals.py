"""What becomes of a TuningProposal: approval, steps, watch, and the way back. Pure.

A proposal goes through these phases:

- Proposed: it waits for its approval, or for another proposal of its profile that is on trial.
- Measuring: the live figures before the change are measured.
- Applying: the values go from the present ones to the proposed ones in equal steps.
- Watching: the proposed values are in force and the figures are compared with those before.
- Kept: they stay in force. RolledBack: they are not. Refused: they never were.

A figure beyond its bound freezes the proposal; one that stays there for `patience` readings in a row rolls it back. So
does a withdrawn approval, and half an hour without figures: values that cannot be judged do not stay. Only values in
the status are in force, and the status is written before a scheduler uses them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.api.meta import Object
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.config.wire import DEFAULT_SCHEDULER_NAME
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.tuning import live_figures, parameters
from rota.scheduler.tuning.parameters import NotTunableError, Parameter

PROPOSALS: Final = ("rota.dev", "v1alpha1", "tuningproposals")
PROPOSED: Final = "Proposed"
MEASURING: Final = "Measuring"
APPLYING: Final = "Applying"
WATCHING: Final = "Watching"
KEPT: Final = "Kept"
ROLLED_BACK: Final = "RolledBack"
REFUSED: Final = "Refused"
#: Phases in which the values of the status are in force.
IN_FORCE: Final = frozenset({APPLYING, WATCHING, KEPT})
#: Phases of which a profile has one proposal at a time.
ON_TRIAL: Final = frozenset({MEASURING, APPLYING, WATCHING})
_ENDED: Final = frozenset({ROLLED_BACK, REFUSED})
#: Readings before the change.
_BASELINE: Final = 3
_BLIND_S: Final = 1800.0
_HISTORY: Final = 30
_CONDITION: Final = "InForce"
_EPSILON: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a proposal is put into force."""

    steps: int
    step_s: float
    interval_s: float
    watch_s: float
    patience: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a decision about a proposal depends on beside the proposal."""

    now: float
    #: The live figures; None if there are none.
    reading: Mapping[str, float] | None
    #: The configuration with the values of all other proposals.
    others: Loaded
    #: The name of another proposal of the same profile that is on trial.
    on_trial: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A status to write, None if it stays; the seconds until the next turn, None if that needs a change."""

    status: dict[str, Any] | None
    wait_s: float | None
    #: What has happened, for an event: a reason and a message.
    event: tuple[str, str] | None = None


def pace_of(spec: Object) -> Pace:
    """The pace of a spec; missing fields have their defaults."""

    def number(name: str, usual: int) -> int:
        return usual if spec.get(name) is None else int(spec[name])

    return Pace(
        steps=number("steps", 4),
        step_s=float(number("stepSeconds", 600)),
        interval_s=float(number("intervalSeconds", 60)),
        watch_s=float(number("watchSeconds", 3600)),
        patience=number("patience", 3),
    )


def scheduler_name(proposal: Object) -> str:
    """The profile that a proposal changes."""
    return str((proposal.get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER_NAME)


def phase(proposal: Object) -> str:
    """The phase of a proposal."""
    return str((proposal.get("status") or {}).get("phase") or PROPOSED)


def values(proposal: Object) -> dict[Parameter, float]:
    """The values of a proposal that are in force."""
    if phase(proposal) not in IN_FORCE or meta.is_deleting(proposal):
        return {}
    return {
        Parameter(each["plugin"], each.get("argument") or ""): each["value"]
        for each in (proposal.get("status") or {}).get("values") or ()
    }


def in_order(proposals: Sequence[Object]) -> list[Object]:
    """Proposals in the order in which they came into force; the values of a later one count."""
    return sorted(proposals, key=lambda one: ((one.get("status") or {}).get("startTime") or "", meta.name(one)))


def approval(proposal: Object) -> str:
    """Why a proposal is approved; empty if it is not."""
    spec = proposal.get("spec") or {}
    if spec.get("approved"):
        return f"approved by {spec.get('approvedBy') or 'a user'}"
    if spec.get("approve") == "auto" and spec.get("approved") is None and not doubts(spec):
        return "approved by its evidence"
    return ""


def doubts(spec: Object) -> str:
    """Why the evidence alone does not approve a proposal; empty if it does."""
    comparisons = (spec.get("evidence") or {}).get("comparisons") or ()
    goal = (spec.get("evidence") or {}).get("goal")
    verdicts = {each["figure"]: each.get("verdict") for each in comparisons}
    if not goal or verdicts.get(goal) != "better":
        return "its evidence does not show that its goal gets better outside noise"
    worse = sorted(figure for figure, verdict in verdicts.items() if verdict == "worse")
    return f"{', '.join(worse)} would get worse" if worse else ""


def turn(proposal: Object, around: Surroundings) -> Turn:
    """Decide what happens to a proposal now."""
    at = phase(proposal)
    if at in _ENDED or meta.is_deleting(proposal):
        return Turn(None, None)
    if not approval(proposal):
        return _unapproved(proposal, around)
    if at == KEPT:
        return Turn(None, None)
    if at == PROPOSED:
        return _begun(proposal, around)
    pace = pace_of(proposal.get("spec") or {})
    status = proposal.get("status") or {}
    passed = around.now - times.parse(status["lastReadingTime"]) if status.get("lastReadingTime") else pace.interval_s
    if 0 <= passed < pace.interval_s:
        return Turn(None, pace.interval_s - passed)
    return _measured(proposal, around) if at == MEASURING else _judged(proposal, around)


def _unapproved(proposal: Object, around: Surroundings) -> Turn:
    if phase(proposal) != PROPOSED:
        return _ended(proposal, around, ROLLED_BACK, "Withdrawn", "the approval was withdrawn")
    spec = proposal.get("spec") or {}
    why = doubts(spec) if spec.get("approve") == "auto" and spec.get("approved") is None else ""
    said = f"{why}; set spec.approved to true to approve it all the same" if why else "waits for spec.approved"
    return _waiting(proposal, around, "NotApproved", said, None)


def _begun(proposal: Object, around: Surroundings) -> Turn:
    spec = proposal.get("spec") or {}
    if around.on_trial:
        return _waiting(proposal, around, "AnotherOnTrial", f"waits for the end of {around.on_trial}", 60.0)
    try:
        profile = parameters.profile_of(around.others, scheduler_name(proposal))
        target: dict[Parameter, float] = {}
        for change in spec.get("changes") or ():
            parameter = Parameter(change["plugin"], change.get("argument") or "")
            present = parameters.value_of(profile, parameter)
            if abs(present - change["from"]) > _EPSILON * max(1.0, abs(present)):
                why = f"{parameter} is {present:g} and no longer {change['from']:g}; propose again"
                return _ended(proposal, around, REFUSED, "OtherConfiguration", why)
            target[parameter] = change["to"]
        parameters.tuned(around.others, scheduler_name(proposal), target)
    except (NotTunableError, ConfigurationError) as error:
        return _ended(proposal, around, REFUSED, "NotApplicable", str(error))
    fields = {"phase": MEASURING, "startTime": times.format_micro_time(around.now), "readings": [], "step": 0}
    return _written(proposal, around, fields, "Measuring", f"{approval(proposal)}; figures are measured first", 0.0)


def _measured(proposal: Object, around: Surroundings) -> Turn:
    """Take a reading before the change; after the last one, the first step."""
    spec, status = proposal.get("spec") or {}, proposal.get("status") or {}
    pace = pace_of(spec)
    if around.reading is None:
        return _blind(proposal, around)
    missing = [each.figure for each in live_figures.bounds_of(spec) if each.figure not in around.reading]
    if missing:
        why = f"the ClusterState of all nodes has no {missing[0]}; give it what that needs, or remove the bound"
        return _ended(proposal, around, REFUSED, "NoFigure", why)
    readings = [*(each["figures"] for each in status.get("readings") or ()), dict(around.reading)]
    fields: dict[str, Any] = {
        "readings": [{"figures": each} for each in readings],
        "lastReadingTime": times.format_micro_time(around.now),
    }
    if len(readings) < _BASELINE:
        said = f"{len(readings)} of {_BASELINE} readings"
        return _written(proposal, around, fields, "Measuring", said, pace.interval_s)
    fields |= {"readings": [], "before": live_figures.mean(readings), "now": dict(around.reading), "worse": 0}
    return _stepped(proposal, around, fields, 1)


def _judged(proposal: Object, around: Surroundings) -> Turn:
    """Compare a reading with those before the change, and go on, wait or go back."""
    spec, status = proposal.get("spec") or {}, proposal.get("status") or {}
    pace = pace_of(spec)
    if around.reading is None:
        return _blind(proposal, around)
    try:
        parameters.tuned(around.others, scheduler_name(proposal), values(proposal))
    except (NotTunableError, ConfigurationError) as error:
        return _ended(proposal, around, ROLLED_BACK, "NotApplicable", str(error))
    found = live_figures.exceeded(live_figures.bounds_of(spec), status.get("before") or {}, around.reading)
    worse = (status.get("worse") or 0) + 1 if found else 0
    fields: dict[str, Any] = {
        "now": dict(around.reading),
        "worse": worse,
        "lastReadingTime": times.format_micro_time(around.now),
    }
    if worse >= pace.patience:
        return _ended(proposal, around, ROLLED_BACK, "Worse", f"{'; '.join(found)}", **fields)
    if found:
        said = f"{'; '.join(found)}; reading {worse} of {pace.patience} before the values are taken back"
        return _written(proposal, around, fields, "Frozen", said, pace.interval_s)
    since = around.now - times.parse(status["lastStepTime"])
    if phase(proposal) == APPLYING and since >= pace.step_s:
        return _stepped(proposal, around, fields, (status.get("step") or 0) + 1)
    if phase(proposal) == WATCHING and since >= pace.watch_s:
        fields["phase"] = KEPT
        return _written(proposal, around, fields, "Kept", "the figures stayed within their bounds", None, event=True)
    at = f"step {status.get('step')} of {pace.steps}" if phase(proposal) == APPLYING else "all steps"
    return _written(proposal, around, fields, phase(proposal), f"{at}; figures within their bounds", pace.interval_s)


def _stepped(proposal: Object, around: Surroundings, fields: dict[str, Any], step: int) -> Turn:
    spec = proposal.get("spec") or {}
    pace = pace_of(spec)
    try:
        reached = [
            _reached(each, around.others, scheduler_name(proposal), step / pace.steps) for each in spec["changes"]
        ]
    except NotTunableError as error:
        return _ended(proposal, around, ROLLED_BACK, "NotApplicable", str(error))
    fields |= {
        "phase": APPLYING if step < pace.steps else WATCHING,
        "step": step,
        "lastStepTime": times.format_micro_time(around.now),
        "values": reached,
    }
    return _written(
        proposal, around, fields, fields["phase"], f"step {step} of {pace.steps}", pace.interval_s, event=True
    )


def _reached(change: Object, others: Loaded, profile: str, part: float) -> dict[str, Any]:
    """The value of a change after a part of the way."""
    parameter = Parameter(change["plugin"], change.get("argument") or "")
    whole = isinstance(parameters.value_of(parameters.profile_of(others, profile), parameter), int)
    value = change["from"] + (change["to"] - change["from"]) * min(part, 1.0)
    # Exactly the proposed value at the end, whatever was rounded on the way.
    value = change["to"] if part >= 1 else round(value) if whole else value
    return {"plugin": parameter.plugin, "argument": parameter.argument, "value": value}


def _blind(proposal: Object, around: Surroundings) -> Turn:
    status = proposal.get("status") or {}
    since = status.get("lastReadingTime") or status.get("startTime")
    if since and around.now - times.parse(since) >= _BLIND_S:
        return _ended(proposal, around, ROLLED_BACK, "NoFigures", "there were no figures for half an hour")
    said = "there are no figures: the ClusterState of all nodes is missing or old"
    return _waiting(proposal, around, "NoFigures", said, pace_of(proposal.get("spec") or {}).interval_s)


def _ended(proposal: Object, around: Surroundings, to: str, reason: str, message: str, **fields: Any) -> Turn:
    fields |= {"phase": to, "values": [], "readings": []}
    return _written(proposal, around, fields, reason, message, None, event=True)


def _waiting(proposal: Object, around: Surroundings, reason: str, message: str, wait_s: float | None) -> Turn:
    """Say why nothing happens, unless the status says so already."""
    present = meta.condition(proposal, _CONDITION) or {}
    if (present.get("reason"), present.get("message")) == (reason, message):
        return Turn(None, wait_s)
    return _written(proposal, around, {"phase": phase(proposal)}, reason, message, wait_s)


def _written(
    proposal: Object,
    around: Surroundings,
    fields: Mapping[str, Any],
    reason: str,
    message: str,
    wait_s: float | None,
    *,
    event: bool = False,
) -> Turn:
    before = proposal.get("status") or {}
    generation = proposal["metadata"].get("generation") or 0
    status = {**before, **fields, "observedGeneration": generation}
    status["conditions"] = meta.with_condition(
        meta.conditions(proposal),
        {
            "type": _CONDITION,
            "status": "True" if status["phase"] in IN_FORCE else "False",
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
        },
        now=times.format_time(around.now),
    )
    if event or status["phase"] != before.get("phase"):
        entry = {"time": times.format_time(around.now), "phase": status["phase"], "reason": reason, "message": message}
        status["history"] = [*(before.get("history") or ()), entry][-_HISTORY:]
    return Turn(status, wait_s, (f"Tuning{reason}", message) if event else None)
