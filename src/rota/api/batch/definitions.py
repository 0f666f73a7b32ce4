"""The CustomResourceDefinitions of Volcano's kinds, with the fields, defaults and bounds of Volcano 1.15.

Pod templates are not described here: admission decodes and validates them as pods of the server's own kinds.
`targetsWithStatus` and a queue's `dequeueStrategy` are fields of the newest upstream schemas.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api.batch import kinds
from rota.api.batch.kinds import Target

Schema: TypeAlias = dict[str, Any]

DEFINITIONS: Final[Target] = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")

_TEXT: Final[Schema] = {"type": "string"}
_TIME: Final[Schema] = {"type": "string", "format": "date-time"}
_INT: Final[Schema] = {"type": "integer"}
_INT32: Final[Schema] = {"type": "integer", "format": "int32"}
_FLAG: Final[Schema] = {"type": "boolean"}
_ANYTHING: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_PORT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 65535}
_NAME: Final[Schema] = {"type": "string", "minLength": 1}
_QUANTITIES: Final[Schema] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": True,
    },
}


def _object(*required: str, **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _list(items: Schema, **bounds: Any) -> Schema:
    return {"type": "array", "items": items, **bounds}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def _defaulted(schema: Schema, value: Any) -> Schema:
    return {**schema, "default": value}


_TEXTS: Final = _list(_TEXT)
_SELECTOR: Final[Schema] = {
    **_object(
        matchLabels=_map(_TEXT),
        matchExpressions=_list(_object("key", "operator", key=_TEXT, operator=_TEXT, values=_TEXTS)),
    ),
    "x-kubernetes-map-type": "atomic",
}
#: Upstream's default tier is 1; a tier by name excludes a tier by number, so it is set by admission.
_NETWORK: Final = _object(
    mode=_defaulted(_one_of("hard", "soft"), "hard"), highestTierAllowed=_INT, highestTierName=_TEXT
)
_POLICY: Final = _object(action=_TEXT, event=_TEXT, events=_TEXTS, exitCode=_INT32, timeout=_TEXT)
_TASK: Final = _object(
    name=_TEXT,
    replicas=_INT32,
    minAvailable=_INT32,
    template=_ANYTHING,
    policies=_list(_POLICY),
    topologyPolicy=_one_of("none", "best-effort", "restricted", "single-numa-node"),
    maxRetry=_INT32,
    dependsOn=_object(name=_TEXTS, iteration=_TEXT),
    partitionPolicy=_object(
        "totalPartitions",
        "partitionSize",
        totalPartitions={**_INT32, "minimum": 1},
        partitionSize={**_INT32, "minimum": 1},
        minPartitions={**_INT32, "minimum": 0},
        networkTopology=_NETWORK,
    ),
)
_JOB_SPEC: Final = _object(
    schedulerName=_TEXT,
    minAvailable=_INT32,
    volumes=_list(_object("mountPath", mountPath=_TEXT, volumeClaimName=_TEXT, volumeClaim=_ANYTHING)),
    tasks=_list(_TASK),
    policies=_list(_POLICY),
    plugins=_map(_TEXTS),
    runningEstimate=_TEXT,
    queue=_TEXT,
    maxRetry=_defaulted(_INT32, 3),
    ttlSecondsAfterFinished=_INT32,
    priorityClassName=_TEXT,
    minSuccess={**_INT32, "minimum": 1},
    networkTopology=_NETWORK,
)
_COUNTS: Final = dict.fromkeys(("pending", "running", "succeeded", "failed", "terminating", "unknown"), _INT32)
_TASK_COUNTS: Final = _map(_object(phase=_map(_INT32)))
_JOB_STATUS: Final = _object(
    state=_object(phase=_TEXT, reason=_TEXT, message=_TEXT, lastTransitionTime=_TIME),
    minAvailable=_INT32,
    taskStatusCount=_TASK_COUNTS,
    **_COUNTS,
    version=_INT32,
    retryCount=_INT32,
    runningDuration=_TEXT,
    controlledResources=_map(_TEXT),
    conditions=_list(_object("status", status=_TEXT, lastTransitionTime=_TIME)),
)
_REFERENCE: Final = _object(
    apiVersion=_TEXT, fieldPath=_TEXT, kind=_TEXT, name=_TEXT, namespace=_TEXT, resourceVersion=_TEXT, uid=_TEXT
)
_CRON_SPEC: Final = _object(
    "schedule",
    "jobTemplate",
    schedule=_NAME,
    timeZone=_TEXT,
    startingDeadlineSeconds={"type": "integer", "format": "int64", "minimum": 0},
    concurrencyPolicy=_defaulted(_one_of("Allow", "Forbid", "Replace"), "Allow"),
    suspend=_defaulted(_FLAG, value=False),
    jobTemplate=_object(metadata=_ANYTHING, spec=_JOB_SPEC),
    successfulJobsHistoryLimit=_defaulted({**_INT32, "minimum": 0}, 3),
    failedJobsHistoryLimit=_defaulted({**_INT32, "minimum": 0}, 1),
)
_OWNER: Final = _object(
    "apiVersion",
    "kind",
    "name",
    "uid",
    apiVersion=_TEXT,
    kind=_TEXT,
    name=_TEXT,
    uid=_TEXT,
    controller=_FLAG,
    blockOwnerDeletion=_FLAG,
)
_PROBE: Final = _object(
    httpGetList=_list(
        _object(taskName=_TEXT, path=_TEXT, port=_PORT, httpHeader=_object("name", "value", name=_TEXT, value=_TEXT))
    ),
    tcpSocketList=_list(_object("port", taskName=_TEXT, port=_PORT)),
    taskStatusList=_list(_object(taskName=_TEXT, phase=_TEXT)),
)
_FLOW: Final = _object(
    "name",
    name=_NAME,
    dependsOn=_object(targets=_TEXTS, probe=_PROBE, targetsWithStatus=_list(_object("name", name=_NAME, phase=_TEXT))),
    patch=_object(jobSpec=_ANYTHING),
)
_HISTORY: Final = _object(startTimestamp=_TIME, endTimestamp=_TIME, state=_TEXT)
_FLOW_STATUS: Final = _object(
    pendingJobs=_TEXTS,
    runningJobs=_TEXTS,
    failedJobs=_TEXTS,
    completedJobs=_TEXTS,
    terminatedJobs=_TEXTS,
    unKnowJobs=_TEXTS,
    jobStatusList=_list(
        _object(
            name=_TEXT,
            state=_TEXT,
            startTimestamp=_TIME,
            endTimestamp=_TIME,
            restartCount=_INT32,
            runningHistories=_list(_HISTORY),
        )
    ),
    conditions=_map(
        _object(phase=_TEXT, createTime=_TIME, runningDuration=_TEXT, taskStatusCount=_TASK_COUNTS, message=_TEXT)
    ),
    flowStatusMap=_map(_TEXT),
    state=_object(phase=_TEXT, message=_TEXT),
)
_GROUP_SPEC: Final = _object(
    minMember=_INT32,
    minTaskMember=_map(_INT32),
    queue=_defaulted(_TEXT, kinds.DEFAULT_QUEUE),
    priorityClassName=_TEXT,
    minResources=_QUANTITIES,
    networkTopology=_NETWORK,
    preemptable=_FLAG,
    subGroupPolicy=_list(
        _object(
            "name",
            name=_NAME,
            networkTopology=_NETWORK,
            subGroupSize=_INT32,
            minSubGroups=_INT32,
            labelSelector=_SELECTOR,
            matchLabelKeys=_TEXTS,
        )
    ),
)
_CONDITION: Final = _object(
    type=_TEXT, status=_TEXT, reason=_TEXT, message=_TEXT, transitionID=_TEXT, lastTransitionTime=_TIME
)
_GROUP_STATUS: Final = _object(
    phase=_TEXT, conditions=_list(_CONDITION), running=_INT32, succeeded=_INT32, failed=_INT32
)
_NODE_GROUPS: Final = _object(
    requiredDuringSchedulingIgnoredDuringExecution=_TEXTS, preferredDuringSchedulingIgnoredDuringExecution=_TEXTS
)
_QUEUE_SPEC: Final = _object(
    weight=_INT32,
    capability=_QUANTITIES,
    reclaimable=_FLAG,
    guarantee=_object(resource=_QUANTITIES),
    deserved=_QUANTITIES,
    parent=_TEXT,
    priority=_INT32,
    affinity=_object(nodeGroupAffinity=_NODE_GROUPS, nodeGroupAntiAffinity=_NODE_GROUPS),
    type=_TEXT,
    extendClusters=_list(_object(name=_TEXT, weight=_INT32, capacity=_QUANTITIES)),
    dequeueStrategy=_one_of("fifo", "traverse"),
)
_QUEUE_STATUS: Final = _object(
    state=_TEXT,
    **dict.fromkeys(("unknown", "pending", "running", "inqueue", "completed"), _INT32),
    reservation=_object(nodes=_TEXTS, resource=_QUANTITIES),
    allocated=_QUANTITIES,
)
_DOMAIN_NAME: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
_MEMBER: Final = _object(
    "type",
    type=_one_of("Node", "HyperNode"),
    selector=_object(
        exactMatch=_object("name", name=_DOMAIN_NAME),
        regexMatch=_object("pattern", pattern=_NAME),
        labelMatch=_SELECTOR,
    ),
)
_HYPER_NODE_SPEC: Final = _object(
    "tier",
    tier={"type": "integer", "minimum": 0},
    tierName={"type": "string", "maxLength": 253},
    members=_list(_MEMBER, minItems=1),
)
_META_CONDITION: Final = _object(
    type=_TEXT,
    status=_one_of("True", "False", "Unknown"),
    reason=_TEXT,
    message=_TEXT,
    observedGeneration={"type": "integer", "format": "int64"},
    lastTransitionTime=_TIME,
)
_HYPER_NODE_STATUS: Final = _object(
    nodeCount={"type": "integer", "format": "int64", "minimum": 0}, conditions=_list(_META_CONDITION)
)
_NUMA_SPEC: Final = _object(
    policies=_map(_TEXT),
    resReserved=_map(_TEXT),
    numares=_map(_object(allocatable=_TEXT, capacity=_INT)),
    cpuDetail=_map(_object(numa={**_INT, "minimum": 0}, socket={**_INT, "minimum": 0}, core={**_INT, "minimum": 0})),
)

_AGE: Final = ("AGE", "date", ".metadata.creationTimestamp")
_PHASE: Final = ("STATUS", "string", ".status.state.phase")


def _definition(
    target: Target,
    kind: str,
    *short_names: str,
    fields: Mapping[str, Schema],
    columns: tuple[tuple[str, str, str], ...] = (_AGE,),
    wide: tuple[tuple[str, str, str], ...] = (),
    namespaced: bool = True,
    status: bool = True,
) -> Schema:
    group, version, plural = target
    shown: list[Schema] = [{"name": name, "type": of, "jsonPath": path} for name, of, path in columns]
    shown += [{"name": name, "type": of, "jsonPath": path, "priority": 1} for name, of, path in wide]
    root = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}, **fields}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(short_names),
            },
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}} if status else {},
                    "additionalPrinterColumns": shown,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": root}},
                }
            ],
        },
    }


@functools.cache
def definitions() -> tuple[Schema, ...]:
    """The definitions, for an API server to serve; do not change them."""
    queue = ("QUEUE", "string", ".spec.queue")
    return (
        _definition(
            kinds.JOBS,
            "Job",
            "vcjob",
            "vj",
            fields={"spec": _JOB_SPEC, "status": _JOB_STATUS},
            columns=(
                _PHASE,
                ("minAvailable", "integer", ".status.minAvailable"),
                ("RUNNINGS", "integer", ".status.running"),
                _AGE,
            ),
            wide=(queue,),
        ),
        _definition(
            kinds.CRON_JOBS,
            "CronJob",
            "cronvcjob",
            "cronvj",
            fields={
                "spec": _CRON_SPEC,
                "status": _object(active=_list(_REFERENCE), lastScheduleTime=_TIME, lastSuccessfulTime=_TIME),
            },
            columns=(
                ("SCHEDULE", "string", ".spec.schedule"),
                ("SUSPEND", "boolean", ".spec.suspend"),
                ("LAST SCHEDULE", "date", ".status.lastScheduleTime"),
                _AGE,
            ),
        ),
        _definition(
            kinds.COMMANDS,
            "Command",
            fields={"action": _TEXT, "target": _OWNER, "reason": _TEXT, "message": _TEXT},
            status=False,
        ),
        _definition(
            kinds.JOB_TEMPLATES,
            "JobTemplate",
            "jt",
            fields={"spec": _JOB_SPEC, "status": _object(jobDependsOnList=_TEXTS)},
        ),
        _definition(
            kinds.JOB_FLOWS,
            "JobFlow",
            "jf",
            fields={
                "spec": _object(flows=_list(_FLOW), jobRetainPolicy=_one_of("retain", "delete")),
                "status": _FLOW_STATUS,
            },
            columns=(_PHASE, _AGE),
        ),
        _definition(
            kinds.POD_GROUPS,
            "PodGroup",
            "pg",
            "podgroup-v1beta1",
            fields={"spec": _GROUP_SPEC, "status": _GROUP_STATUS},
            columns=(
                ("STATUS", "string", ".status.phase"),
                ("minMember", "integer", ".spec.minMember"),
                ("RUNNINGS", "integer", ".status.running"),
                _AGE,
            ),
            wide=(queue,),
            status=False,
        ),
        _definition(
            kinds.QUEUES,
            "Queue",
            "q",
            "queue-v1beta1",
            fields={"spec": _QUEUE_SPEC, "status": _QUEUE_STATUS},
            columns=(("PARENT", "string", ".spec.parent"),),
            namespaced=False,
        ),
        _definition(
            kinds.HYPER_NODES,
            "HyperNode",
            "hn",
            fields={"spec": _HYPER_NODE_SPEC, "status": _HYPER_NODE_STATUS},
            columns=(
                ("Tier", "string", ".spec.tier"),
                ("TierName", "string", ".spec.tierName"),
                ("NodeCount", "integer", ".status.nodeCount"),
                ("Age", "date", ".metadata.creationTimestamp"),
            ),
            namespaced=False,
        ),
        _definition(
            kinds.NUMA_TOPOLOGIES,
            "Numatopology",
            "numatopo",
            fields={"spec": _NUMA_SPEC},
            namespaced=False,
            status=False,
        ),
        _definition(
            kinds.NODE_SHARDS,
            "NodeShard",
            "nsh",
            fields={
                "spec": _object("nodesDesired", nodesDesired=_TEXTS),
                "status": _object(nodesInUse=_TEXTS, nodesToAdd=_TEXTS, nodesToRemove=_TEXTS, lastUpdateTime=_TIME),
            },
            namespaced=False,
        ),
    )


def queues() -> tuple[Schema, ...]:
    """The queues that every cluster has: the root of the hierarchy, and the one of groups that name none."""
    root: Schema = {"metadata": {"name": kinds.ROOT_QUEUE}, "spec": {"weight": 1, "reclaimable": False}}
    default: Schema = {
        "metadata": {"name": kinds.DEFAULT_QUEUE},
        "spec": {"weight": 1, "reclaimable": True, "parent": kinds.ROOT_QUEUE},
    }
    return root, default
