"""A dump of a cluster as lines of a trace, all at time 0; and the objects of such lines again.

Has what decisions read: nodes, pods that have not ended, and the kinds that plugins watch. Commands, arguments and
environments of containers are left out, since they may hold secrets and no decision reads them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client.paths import Target
from rota.client.pods import PODS
from rota.client.verbs import Client, Selection
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.ingest import watched_kinds
from rota.scheduler.recording import trace_lines
from rota.scheduler.recording.trace_files import NotATrace, TraceReader
from rota.scheduler.recording.trace_lines import AnyLine

_NODES: Final = ("", "v1", "nodes")
_PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "v1", "priorityclasses")
_LIVING: Final = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
_PAGE: Final = 2000
_PRIVATE: Final = frozenset(
    {"command", "args", "env", "envFrom", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}
)
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Dump:
    """The lines of a dump, and the kinds that could not be read."""

    def __init__(self) -> None:
        self.lines: Final[list[AnyLine]] = []
        self.left_out: Final[list[str]] = []
        self.nodes = self.pods = 0


@dataclass(frozen=True, slots=True)
class Lists:
    """The objects of a cluster by kind, as the server sent them: nodes first, pods last."""

    objects: list[tuple[str, list[bytes]]]
    #: Kinds that could not be read.
    left_out: list[str]


async def take(client: Client, frameworks: Iterable[Framework] = ()) -> Dump:
    """List the cluster once; without nodes and pods there is no dump."""
    return of_lists(await lists(client, frameworks))


async def lists(client: Client, frameworks: Iterable[Framework] = ()) -> Lists:
    """What a dump is made of, read once and not decoded."""
    found = Lists([("Node", await _listed(client, _NODES))], [])
    watched = (*watched_kinds.BUILTIN.values(), *watched_kinds.declared(frameworks).values())
    for kind, target in (*((each.kind, each.target) for each in watched), ("PriorityClass", _PRIORITY_CLASSES)):
        try:
            found.objects.append((kind, await _listed(client, target)))
        except (errors.NotFound, errors.Forbidden):
            found.left_out.append(kind)
    found.objects.append(("Pod", await _listed(client, PODS, _LIVING)))
    return found


def of_lists(found: Lists) -> Dump:
    """The dump of a cluster's objects."""
    dump = Dump()
    dump.left_out.extend(found.left_out)
    for kind, raw in found.objects:
        documents = map(msgspec.json.decode, raw)
        if kind == "Node":
            dump.lines.extend(trace_lines.NodeSet(node=_public(each)) for each in documents)
            dump.nodes += len(raw)
        elif kind == "Pod":
            dump.lines.extend(map(pod_line, documents))
            dump.pods += len(raw)
        else:
            dump.lines.extend(trace_lines.ObjectSet(kind=kind, document=_public(each)) for each in documents)
    return dump


def pod_line(document: Mapping[str, Any]) -> trace_lines.PodArrived:
    """A pod as it is, on its node or waiting."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    return trace_lines.PodArrived(
        name=metadata["name"], uid=metadata.get("uid") or "", node=spec.get("nodeName") or "", pod=_public(document)
    )


def objects(reader: TraceReader) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects at the beginning of a trace, each with a path that names it; a later time ends the beginning."""
    reader.header()
    return objects_of(reader.lines(), name=str(reader.path))


def objects_of(lines: Iterable[tuple[int, AnyLine]], *, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same of numbered lines; the name is that of their source."""
    templates: dict[str, Mapping[str, Any]] = {}
    for number, line in lines:
        if line.at > 0:
            return
        where = f"{name}, line {number}"
        match line:
            case trace_lines.Template():
                templates[line.name] = line.pod
            case trace_lines.NodeSet():
                yield where, {"apiVersion": "v1", "kind": "Node", **line.node}
            case trace_lines.ObjectSet():
                yield where, {**line.document, "kind": line.kind}
            case trace_lines.PodArrived() | trace_lines.PodPlaced():
                document = line.pod if line.pod is not None else templates.get(line.template)
                if document is None:
                    raise NotATrace(f'{where}: template: there is no template "{line.template}" above')
                yield where, pod_document(line, document)
            case _:
                pass


def pod_document(line: trace_lines.PodLine, like: Mapping[str, Any]) -> dict[str, Any]:
    """The pod of a line as an object."""
    metadata = {**(like.get("metadata") or {})}
    if line.name:
        metadata["name"] = line.name
    if line.uid:
        metadata["uid"] = line.uid
    spec = {**(like.get("spec") or {})}
    if line.node:
        spec["nodeName"] = line.node
    return {"apiVersion": "v1", "kind": "Pod", **like, "metadata": metadata, "spec": spec}


async def _listed(client: Client, target: Target, selection: Selection | None = None) -> list[bytes]:
    found: list[bytes] = []
    async for page in client.pages(target, selection=selection or Selection(), limit=_PAGE):
        if page is None:
            found.clear()
            continue
        found += page.items
    return found


def _public(document: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what is private and without what no decision reads."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != _APPLIED}
    found = {**document, "metadata": metadata}
    spec = document.get("spec")
    if isinstance(spec, dict) and "containers" in spec:
        found["spec"] = {
            name: [_without_private(each) for each in value] if name in {"containers", "initContainers"} else value
            for name, value in spec.items()
        }
    return found


def _without_private(container: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in container.items() if name not in _PRIVATE}
