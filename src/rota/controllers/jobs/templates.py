"""The pods of a Job, from its template. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta, names
from rota.api.meta import Object
from rota.controllers import pod_control
from rota.controllers.jobs import plan
from rota.controllers.jobs.job_accounting import FINALIZER, INDEX, Tally, has_limit_per_index

_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def pod(view: Tally, index: int | None) -> Object:
    """A pod without a name; its index, if any, is set as label, annotation, environment variable and hostname."""
    job = view.job
    made = pod_control.from_template(job, job["spec"]["template"])
    metadata = made["metadata"]
    metadata["finalizers"] = [*dict.fromkeys([*metadata.get("finalizers", ()), FINALIZER])]
    if index is None:
        return made
    metadata["labels"][INDEX] = metadata["annotations"][INDEX] = str(index)
    if has_limit_per_index(job):
        metadata["annotations"] |= plan.index_failures(view, index)
    spec = made["spec"]
    spec["hostname"] = f"{meta.name(job)}-{index}"
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_told(one) for one in spec[kind]]
    return made


def name_prefix(job: Object, index: int | None) -> str:
    """The prefix of pod names."""
    if index is None:
        return pod_control.prefix(meta.name(job))
    suffix = f"-{index}-"
    room = names.MAX_GENERATED_LENGTH - names.SUFFIX_LENGTH - len(suffix)
    return f"{meta.name(job)[:room]}{suffix}"


def _told(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """A container with the variable for its index, unless it defines its own."""
    variables = container.get("env") or ()
    if any(one.get("name") == _VARIABLE for one in variables):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*variables, {"name": _VARIABLE, "valueFrom": source}]}
