"""The objects of a submitted call: a Job that runs it, and a Secret that contains it. Pure.

Arguments may be confidential, and permission to read Jobs does not include Secrets; therefore the call is in a Secret.
The Secret is owned by the Job and deleted with it, after the Job's time to live.
"""

import copy
import re
import secrets
from collections.abc import Collection, Mapping
from typing import Any, Final

from rota.api import gangs, jobs, meta
from rota.api.meta import Object
from rota.python import serialization, task_runner
from rota.python.options import Options
from rota.python.serialization import Packed

JOBS: Final = ("batch", "v1", "jobs")
SECRETS: Final = ("", "v1", "secrets")
SERVICES: Final = ("", "v1", "services")
#: Label with the client of a Job, so that one watch covers all of its Jobs.
SESSION_LABEL: Final = "rota.dev/session"
#: Label of leases: the digest of what their calls ask for.
LEASE_LABEL: Final = "rota.dev/lease"
#: Annotation with the function's name.
FUNCTION_ANNOTATION: Final = "rota.dev/function"
JOB_LABEL: Final = gangs.JOB_LABEL
#: Label with the number of a process of a gang.
INDEX_LABEL: Final = gangs.INDEX_LABEL
#: The largest call in the store, in bytes; a larger one needs a shared folder.
MOST_STORED: Final = 512 * 1024
#: Folder for results that are too large for a pod's status, on the task's machine; one per user.
RESULTS: Final = "/var/tmp/rota-results-{uid}"  # noqa: S108 - the far side checks whose it is, and we the digest
#: Annotation of Jobs whose result need not be kept once a client has read it.
KEPT_ANNOTATION: Final = "rota.dev/kept"
UNTIL_FETCHED: Final = "until-fetched"
#: How long a result is kept if no client has read it, and if one has.
_KEPT_S: Final = 3600.0
FETCHED_S: Final = 60
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LAST_WORDS: Final = "/dev/termination-log"


def fresh_name(stem: str) -> str:
    """A new name, derived from a function's."""
    return f"{cleaned(stem)}-{fresh_letters(8)}"


def fresh_letters(count: int) -> str:
    """Letters that make a name unique."""
    return "".join(secrets.choice(_LETTERS) for _ in range(count))


def cleaned(stem: str) -> str:
    """A function's name as the beginning of the name of an object."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40].strip("-") or "task"


def fresh_key() -> str:
    """The key with which a task signs its result."""
    return secrets.token_hex(32)


def secret(
    name: str, namespace: str, packed: Packed, options: Options, *, session: str, key: str, file: str, results: str
) -> Object:
    """The Secret with a task's call and its key."""
    parts = [] if file else packed.parts()
    data = {
        "key": key,
        "header": packed.header(parts=len(parts), file=file, results=results),
        **({"bootstrap": serialization.bootstrap_text()} if options.elsewhere else {}),
        **{f"part-{number}": part for number, part in enumerate(parts)},
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {SESSION_LABEL: session}},
        "type": "rota.dev/call",
        "immutable": True,
        "stringData": data,
    }


def job(
    name: str,
    namespace: str,
    packed: Packed,
    options: Options,
    *,
    session: str,
    parts: int,
    folders: Collection[str] = (),
) -> Object:
    """The Job that runs a call and retries it; a container mounts these folders of its machine."""
    labels = {**options.pod_labels, SESSION_LABEL: session}
    keys = {
        "ROTA_TASK": "header",
        "ROTA_TASK_KEY": "key",
        **({"ROTA_BOOTSTRAP": "bootstrap"} if options.elsewhere else {}),
        **{f"ROTA_TASK_{number}": f"part-{number}" for number in range(parts)},
    }
    variables: list[dict[str, Any]] = [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}} for variable, key in keys.items()
    ]
    pod = options.pod_spec([*variables, {"name": "ROTA_OUTPUTS", "value": _LAST_WORDS}])
    if options.image and folders:
        listed = list(enumerate(sorted(folders)))
        pod["volumes"] = [
            {"name": f"rota-{number}", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
            for number, path in listed
        ]
        pod["containers"][0]["volumeMounts"] = [
            {"name": f"rota-{number}", "mountPath": path} for number, path in listed
        ]
    if options.timeout is not None:
        pod["activeDeadlineSeconds"] = max(1, round(options.timeout))
    together: dict[str, Any] = {}
    if options.gang:
        pod["subdomain"] = name
        pod["containers"][0]["env"] += gangs.variables(name, options.gang)
        together = gangs.completions(options.gang)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {
                FUNCTION_ANNOTATION: packed.name,
                **({jobs.RETRY_DELAY_ANNOTATION: f"{options.retry_delay:g}"} if options.retries else {}),
                **({KEPT_ANNOTATION: UNTIL_FETCHED} if options.keep is None else {}),
            },
        },
        "spec": {
            **together,
            "backoffLimit": options.retries,
            "ttlSecondsAfterFinished": max(1, round(_KEPT_S if options.keep is None else options.keep)),
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {"operator": "In", "values": [task_runner.HOPELESS, task_runner.UNSENDABLE]},
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {
                "metadata": {
                    "labels": {**labels, **(gangs.labels(name) if options.gang else {})},
                    **({"annotations": options.pod_annotations} if options.pod_annotations else {}),
                },
                "spec": pod,
            },
        },
    }


def lease(job: Object, shape: str) -> Object:
    """The Job of a leased worker: its pod is not replaced, and knows its own address."""
    made: dict[str, Any] = copy.deepcopy(dict(job))
    made["spec"].pop("podFailurePolicy")
    pod = made["spec"]["template"]
    for one in (made, pod):
        one["metadata"].setdefault("labels", {})[LEASE_LABEL] = shape
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    pod["spec"]["containers"][0]["env"].append({"name": "ROTA_TASK_ADDRESS", "valueFrom": address})
    return made


def service(made: Object) -> Object:
    """The Service that gives the processes of a gang their names; it goes with the Job."""
    return gangs.service(meta.name(made), meta.namespace(made), _owner(made))


def owned(made: Mapping[str, Any]) -> Object:
    """The patch that makes a Job the owner of its Secret."""
    return {"metadata": {"ownerReferences": [_owner(made)]}}


def _owner(made: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": meta.name(made), "uid": meta.uid(made)}
