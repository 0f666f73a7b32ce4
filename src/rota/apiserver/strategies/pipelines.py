"""The strategies of pipelines, their runs and their step runs.

An invalid pipeline is refused with the path of each error. A run can be suspended, cancelled, retried, and kept for
longer, but not become another. The work of a step run never changes; it can only be stopped.
"""

from collections.abc import Sequence
from typing import Any, Final

from rota.api import cron, fields, names
from rota.api.pipelines import pipeline_validation
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import batch, generic

_SPEC: Final = fields.Path("spec")
_POLICIES: Final = ("Allow", "Forbid", "Replace")
#: As in `rota.controllers.pipelines.states`; a test compares them.
_RUN_PHASES: Final = ("Pending", "Running", "Suspended", "Succeeded", "Failed", "Cancelled")
_STEP_PHASES: Final = ("Waiting", "Running", "Succeeded", "Failed", "Skipped", "Cached", "Cancelled")
#: The mutable fields of a run, and of a step run.
_OF_A_RUN: Final = frozenset({"suspend", "cancel", "retry", "ttlSecondsAfterFinished"})
_OF_A_STEP: Final = frozenset({"cancel"})


class PipelineStrategy(generic.GenericStrategy):
    """Pipelines."""

    counts_generations = True

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Whether it could run."""
        return super().validate_create(obj, at) + _check_pipeline(obj.get("spec") or {}, _SPEC)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Whether it could run; active runs keep their version."""
        return super().validate_update(new, old, at) + _check_pipeline(new.get("spec") or {}, _SPEC)


class RunStrategy(generic.GenericStrategy):
    """Runs of pipelines."""

    counts_generations = True

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """The pipeline, and for an inline one whether it could run with these values."""
        spec = obj.get("spec") or {}
        found = super().validate_create(obj, at) + _check_ttl(spec)
        own = spec.get("pipelineSpec")
        if bool(own) is bool(spec.get("pipeline")):
            return [*found, fields.required(_SPEC.child("pipeline"), "a run has a pipeline or a pipelineSpec")]
        if own:
            wrong = _check_pipeline(own, _SPEC.child("pipelineSpec"))
            if not wrong:
                given = spec.get("parameters") or []
                wrong = pipeline_validation.check_values(own, given, _SPEC.child("parameters"))
            return found + wrong
        return found + [
            fields.invalid(_SPEC.child("pipeline"), spec["pipeline"], why)
            for why in names.check_dns1123_subdomain(spec["pipeline"])
        ]

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Only mutable fields."""
        found = super().validate_update(new, old, at) + _frozen(new, old, _OF_A_RUN)
        before, after = (one.get("spec") or {} for one in (old, new))
        if (after.get("retry") or 0) < (before.get("retry") or 0):
            found.append(fields.invalid(_SPEC.child("retry"), after.get("retry"), "may only be raised"))
        if before.get("cancel") and not after.get("cancel") and after.get("retry") == before.get("retry"):
            found.append(fields.forbidden(_SPEC.child("cancel"), "what was cancelled goes on by a retry only"))
        return found + _check_ttl(after) + _check_phase(new, _RUN_PHASES)


class StepRunStrategy(generic.GenericStrategy):
    """Runs of steps."""

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """A skipped step run is created with its status, in one write."""

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Its run and its status."""
        found = super().validate_create(obj, at) + _check_phase(obj, _STEP_PHASES)
        return found if obj.get("spec") else [*found, fields.required(_SPEC)]

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """It can only be stopped."""
        found = super().validate_update(new, old, at) + _frozen(new, old, _OF_A_STEP)
        return found + _check_phase(new, _STEP_PHASES)


def _check_ttl(spec: Object) -> list[fields.FieldError]:
    ttl = spec.get("ttlSecondsAfterFinished") or 0
    where = _SPEC.child("ttlSecondsAfterFinished")
    return [fields.invalid(where, ttl, "must be greater than or equal to 0")] if ttl < 0 else []


def _check_phase(obj: Object, known: Sequence[str]) -> list[fields.FieldError]:
    phase = (obj.get("status") or {}).get("phase") or known[0]
    return [] if phase in known else [fields.not_supported(fields.Path("status").child("phase"), phase, known)]


def _frozen(new: Object, old: Object, free: frozenset[str]) -> list[fields.FieldError]:
    before, after = (one.get("spec") or {} for one in (old, new))
    changed = [name for name in {*before, *after} - free if before.get(name) != after.get(name)]
    return [fields.forbidden(_SPEC.child(name), "a run does not change once it is there") for name in sorted(changed)]


def _check_pipeline(spec: Any, path: fields.Path) -> list[fields.FieldError]:
    found = pipeline_validation.check(spec, path)
    schedule = spec.get("schedule")
    if schedule:
        where = path.child("schedule")
        try:
            cron.parse(schedule.get("cron", ""))
        except cron.CronError as problem:
            found.append(fields.invalid(where.child("cron"), schedule.get("cron", ""), str(problem)))
        if schedule.get("timeZone") is not None:
            found += batch.validate_zone(schedule["timeZone"], where.child("timeZone"))
        policy = schedule.get("concurrencyPolicy")
        if policy and policy not in _POLICIES:
            found.append(fields.not_supported(where.child("concurrencyPolicy"), policy, _POLICIES))
        given = schedule.get("parameters") or []
        if not found:
            found += pipeline_validation.check_values(spec, given, where.child("parameters"))
    return found
