"""Actions on pods: binding, status reports, eviction, logs, scale."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api import errors
from rota.api.errors import ApiError
from rota.api.kinds import ResourceType
from rota.client import paths
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, PatchType

PODS: Final = ("", "v1", "pods")
_BATCHES: Final = ("rota.dev", "v1alpha1", "bindingbatches")
_STATUS_BATCHES: Final = ("rota.dev", "v1alpha1", "podstatusbatches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The binding of a pod to a node; with a uid, only of that pod."""

    namespace: str
    pod: str
    node: str
    uid: str = ""
    #: Added to the pod's own.
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: The resourceVersion up to which the sender knows the node's pods: the binding is refused if another pod was bound
    #: there since. Empty if it is to be refused only if the pod does not fit. For batches only.
    seen: str = ""

    @property
    def key(self) -> str:
        """The pod: namespace/name."""
        return f"{self.namespace}/{self.pod}"

    def wire(self) -> Object:
        """As an API object."""
        metadata: Object = {"name": self.pod, "namespace": self.namespace}
        if self.uid:
            metadata["uid"] = self.uid
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


async def bind(client: Client, binding: Binding) -> None:
    """Bind a pod to a node; `Conflict` if it is bound already, or if the server says that it does not fit."""
    await client.create(PODS, binding.wire(), name=binding.pod, namespace=binding.namespace, subresource="binding")


async def bind_many(
    client: Client,
    bindings: Sequence[Binding],
    *,
    atomic: bool = False,
    learned: Callable[[str, str], None] | None = None,
) -> list[ApiError | TransportError | None]:
    """Bind many pods; returns the error of each, in order, None for success.

    `learned` is called with the node and the resourceVersion of each binding that succeeded, if the server tells it.

    On servers without batches, as stock ones, bindings are sent one after the other. These cannot bind `atomic` (all
    pods or none), and raise `NotFound`. If a connection breaks, that is the error of the binding in flight.
    """
    body: Object = {
        "apiVersion": "rota.dev/v1alpha1",
        "kind": "BindingBatch",
        "bindings": [one.wire() for one in bindings],
        "atomic": atomic,
    }
    if seen := {one.node: one.seen for one in bindings if one.seen}:
        body["seen"] = seen
    try:
        answer = await client.create(_BATCHES, body)
    except (errors.NotFound, errors.MethodNotAllowed):
        if atomic:
            raise
        return [await _verdict(client, one) for one in bindings]
    if learned is not None:
        for one, verdict in zip(bindings, answer["verdicts"], strict=False):
            if version := (verdict["status"].get("metadata") or {}).get("resourceVersion"):
                learned(one.node, version)
    return _verdicts(answer)


def _verdicts(answer: Object) -> list[ApiError | TransportError | None]:
    statuses = [verdict["status"] for verdict in answer["verdicts"]]
    return [None if status["status"] == "Success" else errors.from_wire(status) for status in statuses]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A status that is merged into that of one pod."""

    namespace: str
    pod: str
    uid: str
    status: Object


async def report(client: Client, one: Report) -> None:
    """Write the status of a pod; `Conflict` if another pod has its name."""
    patch = {"metadata": {"uid": one.uid}, "status": one.status}
    await client.patch(PODS, one.pod, patch, type=PatchType.STRATEGIC, namespace=one.namespace, subresource="status")


async def report_many(client: Client, reports: Sequence[Report]) -> list[ApiError | TransportError | None]:
    """Write many statuses in one request; returns the error of each, in order, None for success.

    Only Rota's servers support this; others answer with `NotFound` or `Forbidden`.
    """
    body = {
        "apiVersion": "rota.dev/v1alpha1",
        "kind": "PodStatusBatch",
        "statuses": [
            {"metadata": {"namespace": one.namespace, "name": one.pod, "uid": one.uid}, "status": one.status}
            for one in reports
        ],
    }
    return _verdicts(await client.create(_STATUS_BATCHES, body))


async def _verdict(client: Client, one: Binding) -> ApiError | TransportError | None:
    try:
        await bind(client, one)
    except (ApiError, TransportError) as error:
        return error
    return None


async def evict(
    client: Client,
    pod: str,
    *,
    namespace: str,
    uid: str = "",
    grace_period_s: int | None = None,
    dry_run: bool = False,
) -> None:
    """Evict a pod if its disruption budgets allow it; `TooManyRequests` if they do not, for now."""
    options: dict[str, Any] = {}
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    if uid:
        options["preconditions"] = {"uid": uid}
    body: Object = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
        "deleteOptions": options,
    }
    await client.create(PODS, body, name=pod, namespace=namespace, subresource="eviction", dry_run=dry_run)


@contextlib.asynccontextmanager
async def logs(
    client: Client,
    pod: str,
    *,
    namespace: str,
    container: str = "",
    follow: bool = False,
    previous: bool = False,
    timestamps: bool = False,
    tail_lines: int | None = None,
    since_s: int | None = None,
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The log of a container, in chunks that need not end with a line."""
    wanted = {
        "container": container,
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "tailLines": "" if tail_lines is None else str(tail_lines),
        "sinceSeconds": "" if since_s is None else str(since_s),
    }
    path = paths.item(PODS, pod, namespace=namespace, subresource="log")
    async with client.stream(path, query=[(name, value) for name, value in wanted.items() if value]) as chunks:
        yield chunks


async def scale(client: Client, target: ResourceType, name: str, *, namespace: str, replicas: int) -> Object:
    """Set the replicas of a workload by its scale subresource."""
    patch = {"spec": {"replicas": replicas}}
    return await client.patch(target, name, patch, namespace=namespace, subresource="scale")
