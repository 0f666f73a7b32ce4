"""Pods as rows: what kubectl prints, what they request, and why they wait."""

from typing import Any, Final

import msgspec

from rota.api import meta, resources, times
from rota.api.identifiers import GroupResource
from rota.apiserver.printing import pods as printing
from rota.web.views.view import Rows

GPU: Final = "nvidia.com/gpu"
_PRINTER: Final = printing.PRINTERS[GroupResource("", "pods")]
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Pod(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A pod in a list."""

    namespace: str
    name: str
    #: The status column of kubectl.
    status: str
    ready: str
    restarts: int
    node: str
    #: Seconds since 1970.
    created: int
    cpu_milli: int
    memory_bytes: int
    gpus: int
    #: `name=value` pairs, separated by commas.
    labels: str
    #: The kind and name of the controller.
    owner: str
    phase: str
    #: Why it is not scheduled, or why it failed.
    message: str
    priority: int

    @property
    def holds_resources(self) -> bool:
        """Whether it counts on its node."""
        return bool(self.node) and self.phase not in _ENDED


def read(pod: dict[str, Any], now: float = 0.0) -> Pod:
    """A pod of the API as a row."""
    spec, status, metadata = pod.get("spec") or {}, pod.get("status") or {}, meta.metadata(pod)
    cells = _PRINTER.cells(pod, now)
    requests = resources.pod_requests(pod)
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    restarts = sum(one.get("restartCount") or 0 for one in status.get("containerStatuses") or ())
    return Pod(
        namespace=meta.namespace(pod),
        name=meta.name(pod),
        status=str(cells[2]),
        ready=str(cells[1]),
        restarts=restarts,
        node=spec.get("nodeName") or "",
        created=int(times.parse(metadata["creationTimestamp"])) if metadata.get("creationTimestamp") else 0,
        cpu_milli=requests.get("cpu", 0),
        memory_bytes=requests.get("memory", 0),
        gpus=requests.get(GPU, 0),
        labels=",".join(f"{name}={value}" for name, value in sorted(meta.labels(pod).items())),
        owner=f"{owner['kind']}/{owner['name']}" if owner else "",
        phase=status.get("phase") or "Pending",
        message=_message(status),
        priority=spec.get("priority") or 0,
    )


def _message(status: dict[str, Any]) -> str:
    if status.get("message"):
        return str(status["message"])
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return str(one.get("message") or one.get("reason") or "")
    for one in status.get("containerStatuses") or ():
        state = one.get("state") or {}
        ended = state.get("terminated") or {}
        if ended.get("exitCode"):
            return f"{one.get('name')}: exit code {ended['exitCode']} {ended.get('message') or ''}".strip()
        waiting = state.get("waiting") or {}
        if waiting.get("message"):
            return str(waiting["message"])
    return ""


class PodTable(Rows[Pod]):
    """All pods, or those of one namespace."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__(Pod.__struct_fields__, namespace)
