"""Defaults and validation of PodGroups, CronJobs, JobFlows, HyperNodes, Commands and annotated pods. Pure.

The rules are those of upstream's webhooks. Jobs and Queues have modules of their own.
"""

import re
import zoneinfo
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import cron, fields, meta, names, re2_matcher, selectors
from rota.api.batch import graphs, job_rules, kinds, policies
from rota.api.batch.job_rules import TemplateCheck

Object: TypeAlias = Mapping[str, Any]
Found: TypeAlias = list[fields.FieldError]

#: Annotations with a budget of a gang's pods: a number or a percentage, and one of the two.
MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
_SPEC: Final = fields.Path("spec")
_ANNOTATIONS: Final = fields.Path("metadata").child("annotations")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_BUDGET: Final = re.compile(r"[1-9][0-9]*|[1-9][0-9]?%")
#: A CronJob's name leaves space for the suffix of its Jobs' names.
_LONGEST_CRON_NAME: Final = 52


def default_group(group: dict[str, Any], namespace: Object | None) -> None:
    """A group without a queue goes to the one that its namespace is annotated with."""
    spec = group.setdefault("spec", {})
    own = meta.annotations(namespace or {}).get(kinds.QUEUE_NAME)
    if (spec.get("queue") or kinds.DEFAULT_QUEUE) == kinds.DEFAULT_QUEUE:
        spec["queue"] = own or kinds.DEFAULT_QUEUE
    for holder in (spec, *(spec.get("subGroupPolicy") or ())):
        topology = holder.get("networkTopology")
        if topology and not topology.get("highestTierName") and topology.get("highestTierAllowed") is None:
            topology["highestTierAllowed"] = 1


def check_group(group: Object, queues: Mapping[str, Object]) -> Found:
    """All errors of a new group."""
    spec = group.get("spec") or {}
    found = check_group_spec(spec)
    return found + job_rules.check_queue(
        spec.get("queue") or kinds.DEFAULT_QUEUE, queues, _SPEC.child("queue"), "group"
    )


def check_group_spec(spec: Object) -> Found:
    """All errors of a group that can be seen without the cluster."""
    found: Found = []
    if (spec.get("minMember") or 0) < 0:
        found.append(fields.invalid(_SPEC.child("minMember"), spec["minMember"], _NOT_NEGATIVE))
    for name, count in (spec.get("minTaskMember") or {}).items():
        if count < 0:
            found.append(fields.invalid(_SPEC.child("minTaskMember").key(name), count, _NOT_NEGATIVE))
    found += job_rules.check_topology(spec.get("networkTopology"), _SPEC.child("networkTopology"))
    known: set[str] = set()
    for position, policy in enumerate(spec.get("subGroupPolicy") or ()):
        at, name = _SPEC.child("subGroupPolicy").index(position), policy.get("name") or ""
        if name in known:
            found.append(fields.duplicate(at.child("name"), name))
        known.add(name)
        found += job_rules.check_topology(policy.get("networkTopology"), at.child("networkTopology"))
    return found


def check_pod(pod: Object) -> Found:
    """All errors of a pod's budget annotations."""
    annotations = meta.annotations(pod)
    given = [name for name in (MIN_AVAILABLE, MAX_UNAVAILABLE) if name in annotations]
    found = [
        fields.invalid(
            _ANNOTATIONS.key(name), annotations[name], "must be a positive number or a percentage below 100%"
        )
        for name in given
        if not _BUDGET.fullmatch(annotations[name])
    ]
    if len(given) > 1:
        found.append(fields.forbidden(_ANNOTATIONS, f"must not specify {MIN_AVAILABLE} and {MAX_UNAVAILABLE} together"))
    return found


def default_cron_job(cron_job: dict[str, Any]) -> None:
    """Fill in what the job template leaves out."""
    template = (cron_job.get("spec") or {}).get("jobTemplate") or {}
    if isinstance(template.get("spec"), dict):
        job_rules.set_spec_defaults(template["spec"])


def check_cron_job(
    cron_job: Object, queues: Mapping[str, Object], check_template: TemplateCheck | None = None
) -> Found:
    """All errors of a CronJob."""
    spec, found = cron_job.get("spec") or {}, list[fields.FieldError]()
    if len(meta.name(cron_job)) > _LONGEST_CRON_NAME:
        why = f"must be no more than {_LONGEST_CRON_NAME} characters"
        found.append(fields.invalid(fields.Path("metadata").child("name"), meta.name(cron_job), why))
    schedule = spec.get("schedule") or ""
    if "TZ" in schedule:
        found.append(fields.invalid(_SPEC.child("schedule"), schedule, "must not contain a time zone, use timeZone"))
    else:
        try:
            cron.parse(schedule)
        except cron.CronError as problem:
            found.append(fields.invalid(_SPEC.child("schedule"), schedule, str(problem)))
    zone = spec.get("timeZone")
    if zone is not None and not _is_zone(zone):
        found.append(fields.invalid(_SPEC.child("timeZone"), zone, "unknown time zone"))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    at = _SPEC.child("jobTemplate", "spec")
    found += job_rules.check_spec(job, at, check_template)
    return found + job_rules.check_queue(job.get("queue") or kinds.DEFAULT_QUEUE, queues, at.child("queue"), "job")


def _is_zone(name: str) -> bool:
    try:
        return bool(name) and name != "Local" and zoneinfo.ZoneInfo(name) is not None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False


def check_flow(flow: Object) -> Found:
    """All errors of a JobFlow: each flow once, dependencies that exist and form no cycle."""
    flows = (flow.get("spec") or {}).get("flows") or ()
    path, found = _SPEC.child("flows"), list[fields.FieldError]()
    if not flows:
        return [fields.required(path, "a flow has at least one job")]
    needs = {one.get("name") or "": dependencies(one) for one in flows}
    known: set[str] = set()
    for position, one in enumerate(flows):
        at, name = path.index(position), one.get("name") or ""
        found += [fields.invalid(at.child("name"), name, why) for why in names.check_dns1123_subdomain(name)]
        if name in known:
            found.append(fields.duplicate(at.child("name"), name))
        known.add(name)
        for target in dependencies(one):
            if target not in needs:
                found.append(fields.invalid(at.child("dependsOn", "targets"), target, "there is no such flow"))
        found += _check_probe((one.get("dependsOn") or {}).get("probe") or {}, at.child("dependsOn", "probe"))
    if around := graphs.cycle(needs):
        found.append(fields.forbidden(path, f"flows must form a directed acyclic graph: {' -> '.join(around)}"))
    return found


def _check_probe(probe: Object, path: fields.Path) -> Found:
    """Errors of HTTP probes whose path or header could contain another request."""
    found: Found = []
    for position, one in enumerate(probe.get("httpGetList") or ()):
        at, header = path.child("httpGetList").index(position), one.get("httpHeader") or {}
        values = [(at.child("path"), one.get("path"))]
        values += [(at.child("httpHeader", name), header.get(name)) for name in ("name", "value")]
        found += [
            fields.invalid(where, value, "must not contain control characters")
            for where, value in values
            if isinstance(value, str) and not value.isprintable()
        ]
    return found


def dependencies(flow: Object) -> list[str]:
    """The flows that a flow depends on."""
    needs = flow.get("dependsOn") or {}
    return [*(needs.get("targets") or ()), *(one["name"] for one in needs.get("targetsWithStatus") or ())]


def check_hyper_node(hyper_node: Object) -> Found:
    """All errors of a HyperNode's members."""
    members = (hyper_node.get("spec") or {}).get("members") or ()
    path, found = _SPEC.child("members"), list[fields.FieldError]()
    if not members:
        return [fields.required(path, "a HyperNode has at least one member")]
    for position, member in enumerate(members):
        at, selector = path.index(position).child("selector"), member.get("selector") or {}
        given = [name for name in ("exactMatch", "regexMatch", "labelMatch") if selector.get(name) is not None]
        if len(given) != 1:
            found.append(fields.required(at, "exactly one of exactMatch, regexMatch and labelMatch must be specified"))
        if selector.get("labelMatch") is not None:
            found += _check_label_match(member, selector["labelMatch"], at.child("labelMatch"))
        pattern = (selector.get("regexMatch") or {}).get("pattern")
        if pattern is not None:
            try:
                re2_matcher.compile_pattern(pattern)
            except re2_matcher.PatternError as problem:
                found.append(fields.invalid(at.child("regexMatch", "pattern"), pattern, str(problem)))
    return found


def _check_label_match(member: Object, selector: Object, at: fields.Path) -> Found:
    if member.get("type") != "Node":
        return [fields.forbidden(at, "labels select nodes only, not HyperNodes")]
    try:
        selectors.from_object(selector)
    except ValueError as problem:
        return [fields.invalid(at, fields.Literal("selector"), str(problem))]
    return []


def check_command(command: Object) -> Found:
    """All errors of a Command."""
    known = (*policies.ACTIONS, policies.OPEN_QUEUE, policies.CLOSE_QUEUE)
    found: Found = []
    if command.get("action") not in known:
        found.append(fields.not_supported(fields.Path("action"), command.get("action") or "", known))
    if not (command.get("target") or {}).get("name"):
        found.append(fields.required(fields.Path("target"), "a command has a job or a queue as its target"))
    return found
