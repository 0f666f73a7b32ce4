"""The rules of groups, flows, CronJobs, HyperNodes, Commands and pods."""

from typing import Any

import pytest

from rota.api.batch import admission

QUEUES: dict[str, dict[str, Any]] = {
    "root": {"metadata": {"name": "root"}},
    "default": {"metadata": {"name": "default"}, "spec": {"parent": "root"}},
    "shut": {"metadata": {"name": "shut"}, "spec": {"parent": "root"}, "status": {"state": "Closed"}},
}
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "none"}]}}


def flow(*flows: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "f"}, "spec": {"flows": list(flows)}}


def after(name: str, *targets: str) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": list(targets)}}


def probed(name: str, **asked: Any) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": ["a"], "probe": {"httpGetList": [{"port": 80, **asked}]}}}


def cron(name: str = "c", **spec: Any) -> dict[str, Any]:
    job = {"tasks": [{"name": "w", "replicas": 1, "template": TEMPLATE}]}
    made = {"metadata": {"name": name}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}, **spec}}
    admission.set_defaults(admission.CRON_JOBS, made, None, None)
    return made


def domain(*members: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "h"}, "spec": {"tier": 1, "members": list(members)}}


def group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "g"}, "spec": spec}


def pod(**annotations: str) -> dict[str, Any]:
    named = {f"volcano.sh/jdb-{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"metadata": {"name": "p", "annotations": named}}


EXACT = {"exactMatch": {"name": "n"}}
ACCEPTED = {
    "flow": (admission.JOB_FLOWS, flow({"name": "a"}, after("b", "a"), after("c", "a", "b"))),
    "probe": (
        admission.JOB_FLOWS,
        flow({"name": "a"}, probed("b", path="/ready", httpHeader={"name": "X-A", "value": "b"})),
    ),
    "cron job": (admission.CRON_JOBS, cron(timeZone="Europe/Paris")),
    "domain": (admission.HYPER_NODES, domain({"type": "Node", "selector": EXACT})),
    "labels": (
        admission.HYPER_NODES,
        domain({"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}}),
    ),
    "group": (admission.POD_GROUPS, group(minMember=2, queue="default")),
    "pod": (admission.PODS, pod(min_available="50%")),
    "command": (admission.COMMANDS, {"action": "AbortJob", "target": {"name": "j"}}),
}
REFUSED = {
    "no flows": (admission.JOB_FLOWS, flow(), "spec.flows"),
    "flow of itself": (admission.JOB_FLOWS, flow(after("a", "a")), "spec.flows"),
    "flows in a circle": (admission.JOB_FLOWS, flow(after("a", "b"), after("b", "a")), "spec.flows"),
    "unknown target": (admission.JOB_FLOWS, flow(after("a", "x")), "spec.flows[0].dependsOn.targets"),
    "probe with another request": (
        admission.JOB_FLOWS,
        flow({"name": "a"}, probed("b", path="/ready\r\nHost: x")),
        "spec.flows[1].dependsOn.probe.httpGetList[0].path",
    ),
    "probe with another header": (
        admission.JOB_FLOWS,
        flow({"name": "a"}, probed("b", httpHeader={"name": "X-A", "value": "b\nX-C: d"})),
        "spec.flows[1].dependsOn.probe.httpGetList[0].httpHeader.value",
    ),
    "flow twice": (admission.JOB_FLOWS, flow({"name": "a"}, {"name": "a"}), "spec.flows[1].name"),
    "flow name": (admission.JOB_FLOWS, flow({"name": "A_"}), "spec.flows[0].name"),
    "schedule": (admission.CRON_JOBS, cron(schedule="every day"), "spec.schedule"),
    "zone in schedule": (admission.CRON_JOBS, cron(schedule="TZ=UTC * * * * *"), "spec.schedule"),
    "zone": (admission.CRON_JOBS, cron(timeZone="Mars/North"), "spec.timeZone"),
    "cron name": (admission.CRON_JOBS, cron("c" * 53), "metadata.name"),
    "job of a cron job": (admission.CRON_JOBS, cron(jobTemplate={"spec": {}}), "spec.jobTemplate.spec.tasks"),
    "no members": (admission.HYPER_NODES, domain(), "spec.members"),
    "no selector": (admission.HYPER_NODES, domain({"type": "Node"}), "spec.members[0].selector"),
    "two selectors": (
        admission.HYPER_NODES,
        domain({"type": "Node", "selector": {**EXACT, "regexMatch": {"pattern": "n.*"}}}),
        "spec.members[0].selector",
    ),
    "pattern": (
        admission.HYPER_NODES,
        domain({"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}),
        "spec.members[0].selector.regexMatch.pattern",
    ),
    "pattern that only a backtracking matcher has": (
        admission.HYPER_NODES,
        domain({"type": "Node", "selector": {"regexMatch": {"pattern": r"(a)\1"}}}),
        "spec.members[0].selector.regexMatch.pattern",
    ),
    "labels of domains": (
        admission.HYPER_NODES,
        domain({"type": "HyperNode", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}}),
        "spec.members[0].selector.labelMatch",
    ),
    "closed queue": (admission.POD_GROUPS, group(queue="shut"), "spec.queue"),
    "root queue": (admission.POD_GROUPS, group(queue="root"), "spec.queue"),
    "missing queue": (admission.POD_GROUPS, group(queue="nope"), "spec.queue"),
    "negative members": (admission.POD_GROUPS, group(minMember=-1), "spec.minMember"),
    "negative role": (admission.POD_GROUPS, group(minTaskMember={"w": -1}), "spec.minTaskMember[w]"),
    "sub-group twice": (admission.POD_GROUPS, group(subGroupPolicy=[{"name": "s"}] * 2), "spec.subGroupPolicy[1].name"),
    "budget": (admission.PODS, pod(min_available="many"), "metadata.annotations[volcano.sh/jdb-min-available]"),
    "whole budget": (admission.PODS, pod(min_available="100%"), "metadata.annotations[volcano.sh/jdb-min-available]"),
    "two budgets": (admission.PODS, pod(min_available="1", max_unavailable="1"), "metadata.annotations"),
    "action": (admission.COMMANDS, {"action": "Dance", "target": {"name": "j"}}, "action"),
    "target": (admission.COMMANDS, {"action": "AbortJob"}, "target"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_valid_object_is_accepted(case: str) -> None:
    resource, made = ACCEPTED[case]
    assert admission.errors(resource, made, None, QUEUES) == []


@pytest.mark.parametrize("case", REFUSED)
def test_a_broken_rule_is_refused_with_its_path(case: str) -> None:
    resource, made, path = REFUSED[case]
    assert path in [one.field for one in admission.errors(resource, made, None, QUEUES)]


def test_a_group_goes_to_the_queue_of_its_namespace() -> None:
    made = group(minMember=1)
    namespace = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "team"}}}
    admission.set_defaults(admission.POD_GROUPS, made, None, namespace)
    assert made["spec"]["queue"] == "team"


def test_an_object_that_is_being_deleted_is_not_held_back_by_rules() -> None:
    made = flow(after("a", "a")) | {"metadata": {"name": "f", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert admission.errors(admission.JOB_FLOWS, made, made, QUEUES) == []
