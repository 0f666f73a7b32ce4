"""The strategies of Job and CronJob. Mirrors `pkg/apis/batch` of Kubernetes 1.36.

A Job selects its pods by its own uid, which the server writes into selector and template, unless `manualSelector` is
set.
"""

import zoneinfo
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import cron, fields, meta
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks, job_policies, pod_defaults, pod_specs
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC, label_as_template

Found: TypeAlias = list[fields.FieldError]

UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
NAME_LABEL: Final = "batch.kubernetes.io/job-name"
_LEGACY_UID: Final = "controller-uid"
_LEGACY_NAME: Final = "job-name"
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_IMMUTABLE: Final = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
#: Template fields that may change while a Job is suspended and has no pods, besides the resources of its containers.
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")
_MOST_INDEXED: Final = 100_000
#: Jobs with more completions and retries per index have lower limits of parallelism and failed indexes.
_MANY_COMPLETIONS: Final = 100_000
_FEW_OF_MANY: Final = 10_000
#: The controller parses a schedule on every pass; one that lists every minute has 170 characters.
_LONGEST_SCHEDULE: Final = 1024
_LONGEST_MANAGER: Final = 63
#: A CronJob's name leaves space for the suffix of its Jobs' names.
_LONGEST_CRON_NAME: Final = 52


class JobStrategy(GenericStrategy):
    """Jobs."""

    counts_generations = True
    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """One pod, six retries."""
        spec = obj.setdefault("spec", {})
        default_spec(spec)
        label_as_template(obj, spec)

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Generate the selector."""
        super().prepare_create(obj, at)
        spec, metadata = obj["spec"], obj["metadata"]
        if spec.get("manualSelector") or spec.get("template") is None:
            return
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        name = metadata.get("name", "")  # validation refuses a missing one
        for key, value in (
            (_LEGACY_NAME, name),
            (NAME_LABEL, name),
            (_LEGACY_UID, metadata["uid"]),
            (UID_LABEL, metadata["uid"]),
        ):
            labels.setdefault(key, value)
        spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(UID_LABEL, metadata["uid"])
        label_as_template(obj, spec)

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """The whole Job."""
        return super().validate_create(obj, at) + _validate_selector(obj) + validate_spec(obj["spec"], SPEC)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """The whole Job, and its immutable fields."""
        found = super().validate_update(new, old, at)
        if at.subresource == "status" or new["spec"] == old["spec"]:
            return found
        found += validate_spec(new["spec"], SPEC)
        for name in _IMMUTABLE:
            found += checks.immutable(new["spec"].get(name), old["spec"].get(name), SPEC.child(name))
        found += _validate_completions(new["spec"], old["spec"])
        if _fixed_template(new, old) != _fixed_template(old, old):
            path, template = SPEC.child("template"), new["spec"].get("template")
            if _may_be_sent_elsewhere(old):
                path, template = path.child("spec"), (template or {}).get("spec")
            found.append(fields.invalid(path, template, "field is immutable"))
        return found


class CronJobStrategy(GenericStrategy):
    """CronJobs."""

    counts_generations = True
    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """Keep three successful Jobs and a failed one."""
        spec = obj.setdefault("spec", {})
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
        pod_defaults.default_spec(job.setdefault("template", {}).setdefault("spec", {}))

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """The whole CronJob."""
        found = super().validate_create(obj, at) + _validate_cron(obj["spec"])
        if len(obj["metadata"].get("name", "")) > _LONGEST_CRON_NAME:
            why = "must be no more than 52 characters"
            found.append(fields.invalid(fields.Path("metadata").child("name"), obj["metadata"]["name"], why))
        return found

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """The whole CronJob."""
        found = super().validate_update(new, old, at)
        return found if at.subresource == "status" else found + _validate_cron(new["spec"])


def default_spec(spec: Object) -> None:
    """Set the defaults of a Job's spec."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else checks.MAX_INT32)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    pod_defaults.default_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def validate_spec(spec: Mapping[str, Any], path: fields.Path, *, selects: bool = True) -> Found:
    """All errors of a Job's spec; one in a CronJob has no selector yet."""
    found: Found = []
    for name in _COUNTS:
        found += checks.not_negative(spec.get(name), path.child(name))
    if spec.get("managedBy") is not None:
        found += checks.domain_prefixed_path(spec["managedBy"], path.child("managedBy"))
        if len(spec["managedBy"]) > _LONGEST_MANAGER:
            found.append(fields.too_long(path.child("managedBy"), _LONGEST_MANAGER))
    found += _validate_indexes(spec, path)
    found += job_policies.validate(spec, path)
    template = spec.get("template") or {}
    found += pod_specs.validate_template(template, path.child("template"))
    at = path.child("template", "spec", "restartPolicy")
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy == "Always":
        found.append(fields.required(at, 'valid values: "OnFailure", "Never"'))
    elif policy not in {"OnFailure", "Never"}:
        found.append(fields.not_supported(at, policy, ["OnFailure", "Never"]))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        found.append(fields.invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    if selects:
        labels = (template.get("metadata") or {}).get("labels") or {}
        if not spec.get("selector"):
            found.append(fields.required(path.child("selector")))
        elif not checks.selects(spec["selector"], labels):
            why = "`selector` does not match template `labels`"
            found.append(fields.invalid(path.child("template", "metadata", "labels"), labels, why))
    return found


def _validate_indexes(spec: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    mode = spec.get("completionMode") or "NonIndexed"
    if mode not in {"NonIndexed", "Indexed"}:
        found.append(fields.not_supported(path.child("completionMode"), mode, ["NonIndexed", "Indexed"]))
    if mode == "Indexed":
        if spec.get("completions") is None:
            found.append(fields.required(path.child("completions"), "when completion mode is Indexed"))
        if (spec.get("parallelism") or 0) > _MOST_INDEXED:
            why = f"must be less than or equal to {_MOST_INDEXED} when completion mode is Indexed"
            found.append(fields.invalid(path.child("parallelism"), spec["parallelism"], why))
        found += _validate_failed_indexes(spec, path)
    else:
        found += [
            fields.invalid(path.child(name), spec[name], "requires indexed completion mode")
            for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
            if spec.get(name) is not None
        ]
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(fields.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
    return found


def _validate_failed_indexes(spec: Mapping[str, Any], path: fields.Path) -> Found:
    """The limits on failed indexes."""
    found: Found = []
    most, completions = spec.get("maxFailedIndexes"), spec.get("completions") or 0
    where = path.child("maxFailedIndexes")
    if most is not None and spec.get("completions") is not None and most > completions:
        found.append(fields.invalid(where, most, "must be less than or equal to completions"))
    if most is not None and most > _MOST_INDEXED:
        found.append(fields.invalid(where, most, f"must be less than or equal to {_MOST_INDEXED}"))
    if completions <= _MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return found
    if most is None:
        found.append(fields.required(where, f"must be specified when completions is above {_MANY_COMPLETIONS}"))
    why = (
        f"must be less than or equal to {_FEW_OF_MANY} when completions are above {_MANY_COMPLETIONS} "
        "and used with backoff limit per index"
    )
    for name in ("parallelism", "maxFailedIndexes"):
        if (spec.get(name) or 0) > _FEW_OF_MANY:
            found.append(fields.invalid(path.child(name), spec[name], why))
    return found


def _validate_selector(job: Object) -> Found:
    """A generated selector must equal the one that would be generated."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or not spec.get("selector") or spec.get("template") is None:
        return []
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    name = metadata.get("name", "")
    path, found = SPEC.child("template", "metadata", "labels"), []
    for key, value in (
        (_LEGACY_UID, metadata["uid"]),
        (_LEGACY_NAME, name),
        (UID_LABEL, metadata["uid"]),
        (NAME_LABEL, name),
    ):
        if labels.get(key) != value:
            found.append(fields.invalid(path, labels, f"must be '{value}'"))
    generated = {
        UID_LABEL: metadata["uid"], NAME_LABEL: name,
        _LEGACY_UID: metadata["uid"], _LEGACY_NAME: name,
    }  # fmt: skip
    if not checks.selects(spec["selector"], generated):
        found.append(fields.invalid(SPEC.child("selector"), spec["selector"], "`selector` not auto-generated"))
    return found


def _validate_completions(new: Mapping[str, Any], old: Mapping[str, Any]) -> Found:
    """Only an indexed Job can change its completions, and only together with its parallelism."""
    path, wanted = SPEC.child("completions"), new.get("completions")
    if new.get("completionMode") != "Indexed" or wanted is None:
        return checks.immutable(wanted, old.get("completions"), path)
    if wanted != old.get("completions") and wanted != new.get("parallelism"):
        return [fields.invalid(path, wanted, "can only be modified in tandem with spec.parallelism")]
    return []


def _may_be_sent_elsewhere(job: Object) -> bool:
    """Whether a Job is suspended, for the first time or again, without active pods."""
    status = job.get("status") or {}
    rests = not status.get("startTime") or meta.is_condition_true(job, "Suspended")
    return bool(job["spec"].get("suspend")) and rests and not status.get("active")


def _fixed_template(job: Object, old: Object) -> Object:
    """The immutable part of a Job's template in its present state."""
    template: Object = job["spec"].get("template") or {}
    if not _may_be_sent_elsewhere(old):
        return template
    spec = {name: item for name, item in (template.get("spec") or {}).items() if name not in _SCHEDULING}
    affinity = {name: item for name, item in (spec.pop("affinity", None) or {}).items() if name != "nodeAffinity"}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [{name: item for name, item in one.items() if name != "resources"} for one in spec[kind]]
    metadata = {
        name: item for name, item in (template.get("metadata") or {}).items() if name not in {"labels", "annotations"}
    }
    return {**template, "spec": {**spec, "affinity": affinity}, "metadata": metadata}


def _validate_cron(spec: Mapping[str, Any]) -> Found:
    schedule, path = spec.get("schedule", ""), SPEC.child("schedule")
    found = [fields.required(path)] if not schedule else _validate_schedule(schedule, path, zone=spec.get("timeZone"))
    if spec.get("timeZone") is not None:
        found += validate_zone(spec["timeZone"], SPEC.child("timeZone"))
    found += checks.one_of(
        spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"), SPEC.child("concurrencyPolicy")
    )
    for name in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        found += checks.not_negative(spec.get(name), SPEC.child(name))
    job, at = (spec.get("jobTemplate") or {}).get("spec") or {}, SPEC.child("jobTemplate", "spec")
    if job.get("selector") is not None:
        found.append(fields.invalid(at.child("selector"), job["selector"], "`selector` will be auto-generated"))
    return found + validate_spec(job, at, selects=False)


def _validate_schedule(schedule: str, path: fields.Path, *, zone: str | None) -> Found:
    if len(schedule) > _LONGEST_SCHEDULE:
        return [fields.too_long(path, _LONGEST_SCHEDULE)]
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        why = (
            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            if zone is None
            else "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        )
        return [fields.invalid(path, schedule, why)]
    try:
        cron.parse(schedule)
    except cron.CronError as problem:
        return [fields.invalid(path, schedule, str(problem))]
    return []


def validate_zone(zone: str, path: fields.Path) -> Found:
    """The errors of a time zone name."""
    if not zone:
        return [fields.invalid(path, zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [fields.invalid(path, zone, why)]
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return [fields.invalid(path, zone, f"unknown time zone {zone}")]
    return []
