"""A gang as an indexed Job: all of its processes start or none, and each finds the first one by the name of a Service.

`torch.distributed`, and others, read the four variables; the batch scheduler reads the annotation with the size. Pure.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from rota.api.meta import Object

#: Labels that the Job's controller gives to pods: the Job's name, and the number of the process.
JOB_LABEL: Final = "batch.kubernetes.io/job-name"
INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
#: Label of the pods of a gang: the port of the first process. It counts as taken on the node where that process runs,
#: so that the first processes of two gangs with one port do not meet there.
PORT_LABEL: Final = "rota.dev/gang-port"
#: Ports for first processes; no other port can be taken by the label.
_PORTS: Final = range(20_000, 30_000)
_SERVICE_NAME: Final = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
#: A hostname has 63 characters; the number of a process comes behind the name.
_LONGEST: Final = 56


def name(wanted: str) -> str:
    """A name for the Job and the Service of a gang: both are parts of host names, which have no dots."""
    if len(wanted) <= _LONGEST and _SERVICE_NAME.fullmatch(wanted):
        return wanted
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:10]
    return f"g-{re.sub(r'[^a-z0-9]+', '-', wanted)[: _LONGEST - 13].strip('-')}-{digest}"


def port(name: str) -> int:
    """The port of a gang's first process: the same for the same name."""
    return _PORTS[int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % len(_PORTS)]


def labels(name: str) -> dict[str, str]:
    """The label of the pods of a gang."""
    return {PORT_LABEL: str(port(name))}


def taken_port(pod_labels: Mapping[str, str]) -> int | None:
    """The port that a pod takes on its node as the first process of a gang; None if it takes none."""
    text = pod_labels.get(PORT_LABEL, "")
    if pod_labels.get(INDEX_LABEL) != "0" or not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) == len(str(_PORTS.start)) and int(text) in _PORTS else None


def completions(size: int) -> dict[str, Any]:
    """The part of a Job's spec by which it has one pod for each process, all at once."""
    return {"completions": size, "parallelism": size, "completionMode": "Indexed"}


def variables(name: str, size: int) -> list[dict[str, Any]]:
    """The environment of a process: the size of its gang, its own number, and the address of the first one."""
    rank = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_LABEL}']"}}
    values = {"WORLD_SIZE": str(size), "MASTER_ADDR": f"{name}-0.{name}", "MASTER_PORT": str(port(name))}
    return [{"name": "RANK", "valueFrom": rank}, *({"name": key, "value": text} for key, text in values.items())]


def service(name: str, namespace: str, owner: Mapping[str, Any]) -> Object:
    """The Service that gives the processes of a gang their names; it goes with its owner."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [dict(owner)]},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_LABEL: name},
            "ports": [{"name": "gang", "port": port(name), "targetPort": port(name)}],
        },
    }
