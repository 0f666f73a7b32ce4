"""Runs, step runs, pods and Jobs as objects: parsing them, and building one from the other. Pure.

Names are in `rota.api.pipelines.object_names`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import gangs, meta, times
from rota.api.batch import kinds
from rota.api.meta import Object
from rota.api.pipelines import expressions, graphs, object_names
from rota.api.pipelines.graphs import Graph
from rota.api.pipelines.object_names import ITEM, RUN_LABEL, STEP_LABEL, WORKSPACE_ANNOTATION
from rota.controllers.pipelines import attempts
from rota.controllers.pipelines.engine import DEFAULT_WORKSPACE
from rota.controllers.pipelines.progress import Progress, RunState
from rota.controllers.pipelines.states import NewStep, Phase, StepKey, StepState

VERSION: Final = "rota.dev/v1alpha1"
PIPELINES: Final = ("rota.dev", "v1alpha1", "pipelines")
RUNS: Final = ("rota.dev", "v1alpha1", "pipelineruns")
STEP_RUNS: Final = ("rota.dev", "v1alpha1", "stepruns")
PODS: Final = ("", "v1", "pods")
JOBS: Final = ("batch", "v1", "jobs")
SECRETS: Final = ("", "v1", "secrets")
SERVICES: Final = ("", "v1", "services")

#: The environment variable with the path of a step's outputs file.
OUTPUTS_VARIABLE: Final = "ROTA_OUTPUTS"
#: The API's default `terminationMessagePath`.
_LAST_WORDS: Final = "/dev/termination-log"
_SIGNING_SECRET: Final = ("run", "signingSecret")
_HOSTNAME: Final = "kubernetes.io/hostname"


# --- parsing ----------------------------------------------------------------------------------------------------------


def key_of(step_run: Object) -> StepKey:
    """The step and the item of a step run."""
    spec = step_run["spec"]
    return spec["step"], spec.get("index")


def state_of(step_run: Object) -> StepState:
    """The state of a step run."""
    status = step_run.get("status") or {}
    return StepState(
        phase=Phase(status.get("phase") or Phase.WAITING.value),
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        outputs=status.get("outputs") or {},
        node=status.get("node") or "",
    )


def waits(run: Object) -> Graph:
    """The dependencies between the steps of a started run."""
    pipeline = run["status"]["spec"]
    return graphs.graph([*(pipeline.get("steps") or ()), *(pipeline.get("onExit") or ())])


def run_state(run: Object, steps: Progress, *, waits: Graph) -> RunState:
    """A started run with the states of its step runs."""
    spec, status = run["spec"], run["status"]
    pipeline = status["spec"]
    values = {one["name"]: one["default"] for one in pipeline.get("parameters") or () if "default" in one}
    values |= {one["name"]: one["value"] for one in spec.get("parameters") or ()}
    return RunState(
        name=meta.name(run),
        namespace=meta.namespace(run),
        uid=meta.uid(run),
        spec=pipeline,
        parameters=values,
        steps=steps,
        started_at=times.parse(status["startedAt"]),
        waits=waits,
        signing_secret=status.get("signingSecret") or "",
        suspend=bool(spec.get("suspend")),
        cancel=bool(spec.get("cancel")),
    )


def signs(pipeline: Mapping[str, Any]) -> bool:
    """Whether steps of a pipeline sign their outputs."""
    steps = [*(pipeline.get("steps") or ()), *(pipeline.get("onExit") or ())]
    return any(one == _SIGNING_SECRET for one in expressions.references([one.get("template") or {} for one in steps]))


# --- building ---------------------------------------------------------------------------------------------------------


def signing_secret(owner: Object, *, key: str) -> Object:
    """The Secret with the key by which the steps of a pipeline sign their outputs; it goes with its owner."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": object_names.signing_secret(meta.name(owner), meta.uid(owner)),
            "namespace": meta.namespace(owner),
            "ownerReferences": [meta.controller_reference(owner)],
        },
        "type": object_names.SIGNING_TYPE,
        "immutable": True,
        "stringData": {"key": key},
    }


def step_run(run: Object, new: NewStep, *, now: float, near: Sequence[str] = ()) -> Object:
    """The step run of a decision; `near` are its preferred nodes."""
    step, index = new.key
    name = object_names.step_run(meta.name(run), step, index)
    spec: dict[str, Any] = {"run": meta.name(run), "step": step, **new.spec}
    spec.pop("near", None)
    if "template" in spec:
        spec["template"] = _placed(run, spec["template"], near)
    labels = {RUN_LABEL: object_names.label(meta.name(run)), STEP_LABEL: step}
    if index is not None:
        spec["index"] = index
        labels[ITEM] = str(index)
    made: dict[str, Any] = {
        "apiVersion": VERSION,
        "kind": "StepRun",
        "metadata": {
            "name": name,
            "namespace": meta.namespace(run),
            "labels": labels,
            "ownerReferences": [meta.controller_reference({**run, "apiVersion": VERSION, "kind": "PipelineRun"})],
        },
        "spec": spec,
    }
    if new.phase.over:
        ended = times.format_micro_time(now)
        made["status"] = {
            "phase": new.phase.value,
            "reason": new.reason,
            "message": new.message,
            "finishedAt": ended,
        }
    return made


def attempt_name(step_run: Object, number: int) -> str:
    """The name of the pod or Job of an attempt; a Job's is also a label of its pods."""
    name = f"{meta.name(step_run)}-{number}"
    if is_gang(step_run):
        return gangs.name(name)
    return object_names.label(name) if is_job(step_run) else object_names.short(name)


def is_gang(step_run: Object) -> bool:
    """Whether several pods run it together."""
    return bool(step_run["spec"].get("gang"))


def is_job(step_run: Object) -> bool:
    """Whether its attempts are Jobs; otherwise they are pods."""
    return "job" in step_run["spec"] or is_gang(step_run)


def attempt(step_run: Object, number: int) -> Object:
    """The pod or Job of an attempt."""
    spec = step_run["spec"]
    template = spec.get("template") or spec.get("job") or {}
    metadata = dict(template.get("metadata") or {})
    labels = dict(meta.labels(step_run))
    item = labels.pop(ITEM, None)
    if item is not None:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ITEM: item}
    made: dict[str, Any] = {
        "metadata": {
            **metadata,
            "name": attempt_name(step_run, number),
            "namespace": meta.namespace(step_run),
            "labels": {**(metadata.get("labels") or {}), **labels},
            "ownerReferences": [_owner(step_run)],
        },
        "spec": dict(template.get("spec") or {}),
    }
    if spec.get("timeoutSeconds"):
        made["spec"]["activeDeadlineSeconds"] = spec["timeoutSeconds"]
    if "job" in spec:
        return {"apiVersion": "batch/v1", "kind": "Job", **made}
    pod = {"apiVersion": "v1", "kind": "Pod", **made}
    if any(one.get("from") != "stdout" for one in spec.get("outputs") or ()):
        pod["spec"]["containers"] = [_with_outputs(one) for one in pod["spec"].get("containers") or ()]
    # a failed attempt is over; the step run decides about the next one
    pod["spec"]["restartPolicy"] = "Never"
    return _gang(pod, spec["gang"]) if is_gang(step_run) else pod


def gang_service(step_run: Object, number: int) -> Object:
    """The Service by which the pods of a gang find each other; it is there before they are."""
    return gangs.service(attempt_name(step_run, number), meta.namespace(step_run), _owner(step_run))


def _owner(step_run: Object) -> Mapping[str, Any]:
    return meta.controller_reference({**step_run, "apiVersion": VERSION, "kind": "StepRun"})


def _gang(pod: Object, size: int) -> Object:
    """The Job of a gang, from the pod of a step of one process.

    A process cannot join the others again, so the Job ends with the first pod that fails or is lost.
    """
    metadata, name = pod["metadata"], meta.name(pod)
    noted = {**meta.annotations(pod), kinds.MIN_MEMBER: str(size)}
    told = gangs.variables(name, size)
    template = {
        "metadata": {"labels": {**metadata["labels"], **gangs.labels(name)}, "annotations": noted},
        "spec": {
            "schedulerName": kinds.SCHEDULER,
            **pod["spec"],
            "subdomain": name,
            "containers": [{**one, "env": [*(one.get("env") or ()), *told]} for one in pod["spec"]["containers"]],
        },
    }
    lost = {"action": "FailJob", "onPodConditions": [{"type": attempts.DISRUPTION, "status": "True"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {key: metadata[key] for key in ("name", "namespace", "labels", "ownerReferences")},
        "spec": {
            **gangs.completions(size),
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [lost]},
            "template": template,
        },
    }


def _with_outputs(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container with the path of its outputs file, whose content is kept in the pod's status."""
    path = container.get("terminationMessagePath") or _LAST_WORDS
    return {**container, "env": [*(container.get("env") or ()), {"name": OUTPUTS_VARIABLE, "value": path}]}


def _placed(run: Object, template: Mapping[str, Any], near: Sequence[str]) -> Mapping[str, Any]:
    """A pod template with the run's shared folder, its required node, and its preferred nodes."""
    workspace = run["status"]["spec"].get("workspace")
    pod = dict(template.get("spec") or {})
    if workspace is not None:
        folder = {"path": object_names.workspace(meta.uid(run)), "type": "DirectoryOrCreate"}
        volume = {"name": "rota-workspace", "hostPath": folder}
        pod["volumes"] = [*(pod.get("volumes") or ()), volume]
        mount = {"name": "rota-workspace", "mountPath": workspace.get("path") or DEFAULT_WORKSPACE}
        for part in ("initContainers", "containers"):
            if part in pod:
                pod[part] = [{**one, "volumeMounts": [*(one.get("volumeMounts") or ()), mount]} for one in pod[part]]
        if node := run["status"].get("workspaceNode"):
            pod["affinity"] = _with_required(pod.get("affinity") or {}, node)
        template = {**template, "metadata": _annotated(template.get("metadata") or {}, meta.name(run))}
    elif near:
        pod["affinity"] = _with_preferred(pod.get("affinity") or {}, near)
    return {**template, "spec": pod}


def _annotated(metadata: Mapping[str, Any], run: str) -> dict[str, Any]:
    """A pod's metadata with the annotation by which a worker finds the pod's shared folder."""
    return {**metadata, "annotations": {**(metadata.get("annotations") or {}), WORKSPACE_ANNOTATION: run}}


def _with_required(affinity: Mapping[str, Any], node: str) -> dict[str, Any]:
    """An affinity that requires one node."""
    expression = {"key": _HOSTNAME, "operator": "In", "values": [node]}
    nodes = affinity.get("nodeAffinity") or {}
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {"nodeSelectorTerms": [{}]}
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), expression]}
        for term in required["nodeSelectorTerms"]
    ]
    chosen = {**nodes, "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {**affinity, "nodeAffinity": chosen}


def _with_preferred(affinity: Mapping[str, Any], near: Sequence[str]) -> dict[str, Any]:
    """An affinity that prefers these nodes."""
    expression = {"key": _HOSTNAME, "operator": "In", "values": list(near)}
    nodes = affinity.get("nodeAffinity") or {}
    preferred = [
        *(nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
        {"weight": 100, "preference": {"matchExpressions": [expression]}},
    ]
    chosen = {**nodes, "preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {**affinity, "nodeAffinity": chosen}
