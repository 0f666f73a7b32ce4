"""The objects that a submitted call becomes: a Job that runs it, and a Secret that holds it. Pure.

Arguments may hold what not everybody may read, and whoever may look at Jobs may not look at Secrets; so the call goes
there. It belongs to the Job and goes with it, which is when the Job has been over for as long as its options say.
"""

import re
import secrets
from collections.abc import Collection, Mapping
from typing import Any, Final

from rota.api import jobs, meta
from rota.api.meta import Object
from rota.python import serialization, task_runner
from rota.python.options import Options
from rota.python.serialization import Packed

JOBS: Final = ("batch", "v1", "jobs")
SECRETS: Final = ("", "v1", "secrets")
#: Which client has made a Job, so that it can follow all of its own by one watch.
SESSION_LABEL: Final = "rota.dev/session"
#: What the function is called, for people.
FUNCTION_ANNOTATION: Final = "rota.dev/function"
JOB_LABEL: Final = "batch.kubernetes.io/job-name"
#: The most bytes of a call that the store takes; more goes through a shared folder.
MOST_STORED: Final = 512 * 1024
#: Where results go that are too large for a pod's status, on the machine that the task ran on: a folder of its user.
RESULTS: Final = "/var/tmp/rota-results-{uid}"  # noqa: S108 - the far side checks whose it is, and we the digest
#: On Jobs whose result need not be kept once a client has it.
KEPT_ANNOTATION: Final = "rota.dev/kept"
UNTIL_FETCHED: Final = "until-fetched"
#: For how long a result is kept that no client has fetched, and one that a client has.
_KEPT_S: Final = 3600.0
FETCHED_S: Final = 60
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LAST_WORDS: Final = "/dev/termination-log"


def fresh_name(stem: str) -> str:
    """A name that nobody has yet, from a function's."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40].strip("-") or "task"
    return f"{cleaned}-{''.join(secrets.choice(_LETTERS) for _ in range(8))}"


def fresh_key() -> str:
    """What a task signs its result with."""
    return secrets.token_hex(32)


def secret(
    name: str, namespace: str, packed: Packed, options: Options, *, session: str, key: str, file: str, results: str
) -> Object:
    """The call of a task, and its key."""
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
    """What runs a call, and tries it again; a container finds these folders of its machine in it."""
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
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def owned(made: Mapping[str, Any]) -> Object:
    """The change by which a Secret belongs to its Job."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta.name(made),
        "uid": meta.uid(made),
    }
    return {"metadata": {"ownerReferences": [owner]}}
