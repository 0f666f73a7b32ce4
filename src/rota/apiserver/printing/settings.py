"""Namespaces, config maps, secrets, service accounts, quotas, priority classes and pod groups."""

from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import texts
from rota.apiserver.printing.columns import NONE, Cells, Object, Printer, Printers, age, at, columns, items, name


def _namespace(obj: Object, now: float) -> Cells:
    return [name(obj), at(obj, "status", "phase") or "", age(obj, now)]


def _config_map(obj: Object, now: float) -> Cells:
    return [name(obj), len(at(obj, "data") or {}) + len(at(obj, "binaryData") or {}), age(obj, now)]


def _secret(obj: Object, now: float) -> Cells:
    return [name(obj), at(obj, "type") or "", len(at(obj, "data") or {}), age(obj, now)]


def _name_and_age(obj: Object, now: float) -> Cells:
    return [name(obj), age(obj, now)]


def _resource_quota(obj: Object, now: float) -> Cells:
    used = at(obj, "status", "used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for resource, hard in sorted((at(obj, "status", "hard") or {}).items()):
        entry = f"{resource}: {texts.quantity(used.get(resource))}/{texts.quantity(hard)}"
        (limits if resource.startswith("limits.") else requests).append(entry)
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _priority_class(obj: Object, now: float) -> Cells:
    return [
        name(obj),
        at(obj, "value") or 0,
        bool(at(obj, "globalDefault")),
        age(obj, now),
        at(obj, "preemptionPolicy") or "",
    ]


def _pod_group(obj: Object, now: float) -> Cells:
    policy = "Basic" if at(obj, "spec", "schedulingPolicy", "gang") is None else "Gang"
    found = {one.get("type"): one for one in items(obj, "status", "conditions")}
    status = "Pending"
    if "PodGroupScheduled" in found:
        status = "Scheduled" if found["PodGroupScheduled"].get("status") == "True" else "Unschedulable"
    if "DisruptionTarget" in found:
        status = found["DisruptionTarget"].get("reason") or ""
    template = at(obj, "spec", "podGroupTemplateRef")
    workload = NONE if template is None else at(template, "workload", "workloadName") or ""
    return [name(obj), policy, workload, status, age(obj, now)]


NAME_AND_AGE: Final = Printer(
    columns=columns("""
        Name | string name | The name of the object.
        Age  | string      | How long the object has existed.
    """),
    cells=_name_and_age,
)

PRINTERS: Final[Printers] = {
    GroupResource("", "namespaces"): Printer(
        columns=columns("""
            Name   | string name | The name of the namespace.
            Status | string      | Whether it is in use or being emptied.
            Age    | string      | How long the namespace has existed.
        """),
        cells=_namespace,
    ),
    GroupResource("", "configmaps"): Printer(
        columns=columns("""
            Name | string name | The name of the config map.
            Data | string      | How many entries it has.
            Age  | string      | How long the config map has existed.
        """),
        cells=_config_map,
    ),
    GroupResource("", "secrets"): Printer(
        columns=columns("""
            Name | string name | The name of the secret.
            Type | string      | What the secret is for.
            Data | string      | How many entries it has.
            Age  | string      | How long the secret has existed.
        """),
        cells=_secret,
    ),
    GroupResource("", "serviceaccounts"): NAME_AND_AGE,
    GroupResource("", "resourcequotas"): Printer(
        columns=columns("""
            Name    | string name | The name of the quota.
            Request | string      | What may be asked for: used, of how much.
            Limit   | string      | What may be used at most: used, of how much.
            Age     | string      | How long the quota has existed.
        """),
        cells=_resource_quota,
    ),
    GroupResource("scheduling.k8s.io", "priorityclasses"): Printer(
        columns=columns("""
            Name             | string name | The name of the class.
            Value            | integer     | The priority; higher ones are served first.
            Global-Default   | boolean     | Whether pods without a class get this one.
            Age              | string      | How long the class has existed.
            PreemptionPolicy | string      | Whether its pods may push others away.
        """),
        cells=_priority_class,
    ),
    GroupResource("scheduling.k8s.io", "workloads"): NAME_AND_AGE,
    GroupResource("scheduling.k8s.io", "podgroups"): Printer(
        columns=columns("""
            Name     | string name | The name of the group.
            Policy   | string      | Whether its pods start together or one by one.
            Workload | string      | The workload that it is a part of.
            Status   | string      | Whether the group has found its place.
            Age      | string      | How long the group has existed.
        """),
        cells=_pod_group,
    ),
}
