"""Extensions and settings of an API server: admission, aggregated APIs, flow control, storage versions."""

from collections.abc import Callable
from typing import Any, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import texts
from rota.apiserver.printing.columns import (
    NONE,
    UNSET,
    Cells,
    Object,
    Printer,
    Printers,
    age,
    at,
    columns,
    condition,
    items,
    name,
)


def _webhooks(obj: Object, now: float) -> Cells:
    return [name(obj), len(items(obj, "webhooks")), age(obj, now)]


def _policy(rules: str) -> Callable[[Object, float], Cells]:
    def cells(obj: Object, now: float) -> Cells:
        kind = at(obj, "spec", "paramKind")
        parameters = UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"
        return [name(obj), len(items(obj, "spec", rules)), parameters, age(obj, now)]

    return cells


def _policy_binding(obj: Object, now: float) -> Cells:
    return [name(obj), at(obj, "spec", "policyName") or "", _parameters(at(obj, "spec", "paramRef")), age(obj, now)]


def _parameters(reference: Any) -> str:
    if at(reference, "name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    selector = at(reference, "selector")
    return UNSET if selector is None else texts.selector(selector)


def _api_service(obj: Object, now: float) -> Cells:
    service = at(obj, "spec", "service")
    where = "Local" if service is None else f"{service.get('namespace') or ''}/{service.get('name') or ''}"
    found = condition(obj, "Available") or {"status": "Unknown"}
    status, reason = found.get("status") or "", found.get("reason")
    return [name(obj), where, f"{status} ({reason})" if reason and status != "True" else status, age(obj, now)]


def _flow_schema(obj: Object, now: float) -> Cells:
    method = at(obj, "spec", "distinguisherMethod")
    dangling = condition(obj, "Dangling")
    return [
        name(obj),
        at(obj, "spec", "priorityLevelConfiguration", "name") or "",
        at(obj, "spec", "matchingPrecedence") or 0,
        NONE if method is None else method.get("type") or "",
        age(obj, now),
        "?" if dangling is None else dangling.get("status") or "",
    ]


def _priority_level(obj: Object, now: float) -> Cells:
    limited = at(obj, "spec", "limited")
    queuing = at(limited, "limitResponse", "queuing")
    return [
        name(obj),
        at(obj, "spec", "type") or "",
        NONE if limited is None else limited.get("nominalConcurrencyShares") or 0,
        *(NONE if queuing is None else queuing.get(key) or 0 for key in ("queues", "handSize", "queueLengthLimit")),
        age(obj, now),
    ]


def _storage_version(obj: Object, now: float) -> Cells:
    common = at(obj, "status", "commonEncodingVersion")
    servers = (
        f"{one.get('apiServerID') or ''}={one.get('encodingVersion') or ''}"
        for one in items(obj, "status", "storageVersions")
    )
    return [name(obj), UNSET if common is None else common, texts.shortened(servers), age(obj, now)]


def _migration(obj: Object, now: float) -> Cells:
    resource = GroupResource(at(obj, "spec", "resource", "group") or "", at(obj, "spec", "resource", "resource") or "")
    states = ["Unknown"]
    states += [
        one["type"]
        for one in items(obj, "status", "conditions")
        if one.get("status") == "True" and one.get("type") in {"Running", "Failed", "Succeeded"}
    ]
    return [name(obj), str(resource), states[-1]]


_WEBHOOKS: Final = Printer(
    columns=columns("""
        Name     | string name | The name of the configuration.
        Webhooks | integer     | How many webhooks it has.
        Age      | string      | How long the configuration has existed.
    """),
    cells=_webhooks,
)
_POLICY_BINDING: Final = Printer(
    columns=columns("""
        Name       | string name | The name of the binding.
        PolicyName | string      | The policy that it puts into force.
        ParamRef   | string      | The object with the policy's parameters.
        Age        | string      | How long the binding has existed.
    """),
    cells=_policy_binding,
)


def _policy_printer(column: str, rules: str) -> Printer:
    return Printer(
        columns=columns(f"""
            Name      | string name | The name of the policy.
            {column}  | integer     | How many rules it has.
            ParamKind | string      | The kind of its parameters.
            Age       | string      | How long the policy has existed.
        """),
        cells=_policy(rules),
    )


_ADMISSION: Final = "admissionregistration.k8s.io"
_FLOW_CONTROL: Final = "flowcontrol.apiserver.k8s.io"

PRINTERS: Final[Printers] = {
    GroupResource(_ADMISSION, "mutatingwebhookconfigurations"): _WEBHOOKS,
    GroupResource(_ADMISSION, "validatingwebhookconfigurations"): _WEBHOOKS,
    GroupResource(_ADMISSION, "validatingadmissionpolicies"): _policy_printer("Validations", "validations"),
    GroupResource(_ADMISSION, "mutatingadmissionpolicies"): _policy_printer("Mutations", "mutations"),
    GroupResource(_ADMISSION, "validatingadmissionpolicybindings"): _POLICY_BINDING,
    GroupResource(_ADMISSION, "mutatingadmissionpolicybindings"): _POLICY_BINDING,
    GroupResource("apiregistration.k8s.io", "apiservices"): Printer(
        columns=columns("""
            Name      | string name | The name of the API service.
            Service   | string      | Who answers for it.
            Available | string      | Whether it answers, and if not, why.
            Age       | string      | How long the API service has existed.
        """),
        cells=_api_service,
    ),
    GroupResource(_FLOW_CONTROL, "flowschemas"): Printer(
        columns=columns("""
            Name                | string name | The name of the schema.
            PriorityLevel       | string      | The level that its requests get.
            MatchingPrecedence  | string      | Its turn among the schemas; lower comes first.
            DistinguisherMethod | string      | What makes two requests belong to one flow.
            Age                 | string      | How long the schema has existed.
            MissingPL           | string      | Whether its level does not exist.
        """),
        cells=_flow_schema,
    ),
    GroupResource(_FLOW_CONTROL, "prioritylevelconfigurations"): Printer(
        columns=columns("""
            Name                     | string name | The name of the level.
            Type                     | string      | Whether its requests are limited.
            NominalConcurrencyShares | string      | Its share of the requests that are served at a time.
            Queues                   | string      | How many queues it has.
            HandSize                 | string      | How many queues a flow may use.
            QueueLengthLimit         | string      | How many requests a queue holds.
            Age                      | string      | How long the level has existed.
        """),
        cells=_priority_level,
    ),
    GroupResource("internal.apiserver.k8s.io", "storageversions"): Printer(
        columns=columns("""
            Name                  | string name | The name of the object.
            CommonEncodingVersion | string      | The version that all servers write.
            StorageVersions       | string      | The version that each server writes.
            Age                   | string      | How long the object has existed.
        """),
        cells=_storage_version,
    ),
    GroupResource("storagemigration.k8s.io", "storageversionmigrations"): Printer(
        columns=columns("""
            Name     | string | The name of the migration.
            Resource | string | What is written anew.
            Status   | string | How far the migration is.
        """),
        cells=_migration,
    ),
}
