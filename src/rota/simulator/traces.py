"""A workload in memory: nodes, the pods that arrive with their times, and everything else that changes.

Pods are columns (time, duration, template), so a million of them take some 100 MB. A trace is checked completely before
it is used: a simulation never stops in the middle because of its input.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from rota.api.gpu_devices import Devices
from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import PodInterner, read_node
from rota.kit.errors import UserError
from rota.scheduler.recording import trace_files, trace_lines
from rota.scheduler.recording.trace_files import TraceReader
from rota.scheduler.recording.trace_lines import AnyLine

Document: TypeAlias = Mapping[str, Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

#: The duration of a pod that runs until a line says that it is gone.
FOREVER: Final = float("inf")


class BadTrace(UserError):
    """A fault in an input file, with its line and its field."""

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        super().__init__(f"{where}: {problem}", remedy)


@dataclass(slots=True)
class Skipped:
    """What a lenient reader left out."""

    number: int = 0
    #: The first few faults.
    examples: list[str] = field(default_factory=list)

    def add(self, fault: str) -> None:
        """Count a fault."""
        self.number += 1
        if len(self.examples) < 5:
            self.examples.append(fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod that has a node at the beginning."""

    name: str
    template: int
    node: str
    #: Seconds that it still runs.
    duration: float = FOREVER
    uid: str = ""
    #: When it was started, in RFC 3339; "": at the beginning.
    started: str = ""
    #: The GPU devices that it has there.
    devices: Devices = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A workload; arrays have one entry per arriving pod, in the order of arrival."""

    name: str
    nodes: Sequence[Document]
    #: Pods as on the wire; what pods that are alike have in common.
    templates: Sequence[Document]
    at: Floats
    duration: Floats
    template: Ints
    names: Sequence[str]
    #: Their uids, or "" where a uid is namespace/name; empty if that holds for all.
    uids: Sequence[str] = ()
    placed: Sequence[Placed] = ()
    #: Objects of other kinds at the beginning: (kind, document).
    objects: Sequence[tuple[str, Document]] = ()
    #: Later changes in the order of time: of nodes, ends of pods, objects, the configuration.
    changes: Sequence[AnyLine] = ()
    configuration: Document | None = None
    skipped: Skipped = field(default_factory=Skipped)

    def __len__(self) -> int:
        return len(self.at)

    def with_arrivals(self, order: Ints) -> "Trace":
        """The pods in another order, also some of them or some of them repeatedly, one second apart.

        A repeated pod gets a name of its own, its durations stay with it.
        """
        names: list[str] = []
        seen: dict[int, int] = {}
        for position in order.tolist():
            times = seen.get(position, 0)
            seen[position] = times + 1
            names.append(f"{self.names[position]}-{times}" if times else self.names[position])
        return replace(
            self,
            at=np.arange(len(order), dtype=np.float64),
            duration=self.duration[order],
            template=self.template[order],
            names=names,
            uids=(),
        )


class TraceBuilder:
    """Collects the parts of a trace; equal pods get one template."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.nodes: Final[dict[str, Document]] = {}
        self.objects: Final[list[tuple[str, Document]]] = []
        self.changes: Final[list[AnyLine]] = []
        self.placed: Final[list[Placed]] = []
        self.skipped: Final = Skipped()
        self.configuration: Document | None = None
        self._templates: Final[list[Document]] = []
        self._numbers: Final[dict[object, int]] = {}
        self._at: Final[list[float]] = []
        self._duration: Final[list[float]] = []
        self._template: Final[list[int]] = []
        self._names: Final[list[str]] = []
        self._known: Final[set[str]] = set()
        self._uids: Final[list[str]] = []
        self._positions: Final[dict[str, int]] = {}

    def template(self, key: object, document: Document) -> int:
        """The number of a template; a known key keeps the document that it came with first."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._templates)
            self._templates.append(document)
        return number

    def known_template(self, key: object) -> int | None:
        """The number of a template, if it is known."""
        return self._numbers.get(key)

    def claim_name(self, name: str) -> bool:
        """Take a pod's name; False if another pod has it."""
        if name in self._known:
            return False
        self._known.add(name)
        return True

    def arrive(self, name: str, at: float, template: int, *, duration: float = FOREVER, uid: str = "") -> None:
        """Add a pod that arrives."""
        self._at.append(at)
        self._duration.append(duration)
        self._template.append(template)
        self._names.append(name)
        self._uids.append(uid)
        if uid:
            self._positions[uid] = len(self._at) - 1

    def end(self, uid: str, duration: float) -> bool:
        """Say how long an arrived pod runs; False if no pod has this uid."""
        position = self._positions.get(uid)
        if position is None:
            return False
        self._duration[position] = duration
        return True

    def build(self) -> Trace:
        """The trace, sorted by time; pods of the same time stay in the order in which they were added."""
        at = np.array(self._at, dtype=np.float64)
        order = np.argsort(at, kind="stable")
        return Trace(
            name=self.name,
            nodes=list(self.nodes.values()),
            templates=self._templates,
            at=at[order],
            duration=np.array(self._duration, dtype=np.float64)[order],
            template=np.array(self._template, dtype=np.int64)[order],
            names=[self._names[position] for position in order.tolist()],
            uids=[self._uids[position] for position in order.tolist()],
            placed=self.placed,
            objects=self.objects,
            changes=sorted(self.changes, key=lambda line: line.at),
            configuration=self.configuration,
            skipped=self.skipped,
        )


def read(path: Path, *, lenient: bool = False) -> Trace:
    """Read a trace, a dump or a recording as a workload."""
    return _TraceFile(path, lenient=lenient).read()


class _TraceFile:
    """Reads one file; a recording's decisions and placements are left out, since a simulation makes its own."""

    def __init__(self, path: Path, *, lenient: bool) -> None:
        self._path: Final = path
        self._lenient: Final = lenient
        self._into: Final = TraceBuilder(path.name.removesuffix(".gz").removesuffix(".jsonl"))
        self._interner: Final = PodInterner()
        #: Nodes that exist at the present line.
        self._alive: Final[set[str]] = set()
        self._last = 0.0
        #: When pods of a recording were bound.
        self._bound_at: Final[dict[str, float]] = {}

    def read(self) -> Trace:
        reader = TraceReader(self._path)
        self._into.configuration = reader.header().configuration
        for number, line in reader.lines():
            try:
                self._take(line)
            except (BadTrace, MalformedObjectError) as error:
                fault = f"{self._path}, line {number}: {error}"
                if not self._lenient:
                    raise UserError(fault, "correct the line, or skip such lines with --lenient") from error
                self._into.skipped.add(fault)
        return self._into.build()

    def _take(self, line: AnyLine) -> None:
        self._check_time(line.at)
        match line:
            case trace_lines.NodeSet():
                self._node(line)
            case trace_lines.NodeGone():
                if line.name not in self._alive:
                    raise BadTrace("name", f'there is no node "{line.name}" to remove')
                self._alive.discard(line.name)
                self._into.changes.append(line)
            case trace_lines.Template():
                if self._into.known_template(line.name) is not None:
                    raise BadTrace("name", f'there is another template "{line.name}"')
                self._into.template(line.name, self._checked_pod(line.pod, name="template"))
            case trace_lines.PodArrived():
                self._pod(line)
            case trace_lines.PodBound() if not line.failure:
                self._bound_at[line.uid] = line.at
            case trace_lines.PodGone():
                self._gone(line)
            case trace_lines.ObjectSet():
                if line.at == 0:
                    self._into.objects.append((line.kind, line.document))
                else:
                    self._into.changes.append(line)
            case trace_lines.ObjectGone() | trace_lines.ConfigurationSet():
                self._into.changes.append(line)
            case _:
                pass

    def _gone(self, line: trace_lines.PodGone) -> None:
        """A pod of a recording runs as long as it did then; otherwise it goes at this time."""
        began = self._bound_at.pop(line.uid, None)
        if began is None or not self._into.end(line.uid, line.at - began):
            self._into.changes.append(line)

    def _check_time(self, at: float) -> None:
        if not 0 <= at < FOREVER:
            raise BadTrace("at", f"{at} is no time of 0 s or more")
        if at < self._last:
            raise BadTrace("at", f"{at} is before the line above, at {self._last}", "sort the lines by time")
        self._last = at

    def _node(self, line: trace_lines.NodeSet) -> None:
        node = read_node(line.node, path="node")
        name = node.metadata.name
        for resource, amount in (node.status.allocatable or {}).items():
            if str(amount).startswith("-"):
                raise BadTrace(f"node.status.allocatable.{resource}", f"{amount} is negative")
        if line.at == 0 and name in self._into.nodes:
            raise BadTrace("node.metadata.name", f'there is another node "{name}"')
        self._alive.add(name)
        if line.at == 0:
            self._into.nodes[name] = line.node
        else:
            self._into.changes.append(line)

    def _checked_pod(self, document: Document, *, name: str) -> Document:
        metadata = {**(document.get("metadata") or {})}
        metadata.setdefault("name", name)
        whole = {**document, "metadata": metadata}
        pod = self._interner.pod(whole, path="pod")
        for resource, amount in pod.shape.requests.items():
            if amount < 0:
                raise BadTrace("pod.spec", f"the request of {resource} is negative")
        return whole

    def _pod(self, line: trace_lines.PodArrived) -> None:
        into = self._into
        duration = FOREVER if line.duration is None else line.duration
        if not duration >= 0:
            raise BadTrace("duration", f"{duration} is negative: the pod would end before its start")
        if line.pod is not None:
            document = self._checked_pod(line.pod, name=line.name or "pod")
            name = line.name or str(document["metadata"]["name"])
            uid = line.uid or str(document["metadata"].get("uid") or "")
            node = line.node or str((document.get("spec") or {}).get("nodeName") or "")
            placed = self._interner.pod(document) if node else None
            document = _unbound(document)
            template = into.template(msgspec.json.encode(_without_identity(document)), document)
        else:
            found = into.known_template(line.template)
            if found is None:
                raise BadTrace("template", f'there is no template "{line.template}" above')
            if not line.name:
                raise BadTrace("name", "is required")
            name, uid, template, node, placed = line.name, line.uid, found, line.node, None
        if not into.claim_name(uid or name):
            raise BadTrace("name", f'there is another pod "{name}"')
        if node:
            if line.at > 0:
                raise BadTrace("node", "a pod that arrives later has no node yet")
            started, devices = ("", ()) if placed is None else (placed.start_time, placed.gpu_devices)
            into.placed.append(
                Placed(
                    name=name,
                    template=template,
                    node=node,
                    duration=duration,
                    uid=uid,
                    started=started,
                    devices=devices,
                )
            )
        else:
            into.arrive(name, line.at, template, duration=duration, uid=uid)


def from_objects(found: Iterable[tuple[str, Document]], name: str) -> Trace:
    """A cluster of objects as `kubectl get -o json` gives them: pods without a node arrive at the beginning."""
    into, interner = TraceBuilder(name), PodInterner()
    for path, each in found:
        kind = each.get("kind")
        if kind == "Node":
            node = read_node(each, path=path)
            if node.metadata.name in into.nodes:
                raise BadTrace(f"{path}.metadata.name", f'there is another node "{node.metadata.name}"')
            into.nodes[node.metadata.name] = each
        elif kind == "Pod":
            pod = interner.pod(each, path=path)
            if (each.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
                continue
            if not into.claim_name(pod.uid):
                raise BadTrace(f"{path}.metadata", f'there is another pod "{pod.key}"')
            document = _unbound(each)
            template = into.template(msgspec.json.encode(_without_identity(document)), document)
            if pod.node_name:
                into.placed.append(
                    Placed(
                        name=pod.name,
                        template=template,
                        node=pod.node_name,
                        uid=pod.uid,
                        started=pod.start_time,
                        devices=pod.gpu_devices,
                    )
                )
            else:
                into.arrive(pod.name, 0.0, template, uid=pod.uid)
        elif isinstance(kind, str) and kind:
            into.objects.append((kind, each))
        else:
            raise BadTrace(f"{path}.kind", "is required")
    return into.build()


def _unbound(document: Document) -> Document:
    """The pod as it was before it got a node."""
    spec = {name: value for name, value in (document.get("spec") or {}).items() if name != "nodeName"}
    return {"metadata": document["metadata"], "spec": spec}


def _without_identity(document: Document) -> Document:
    own = {"name", "uid", "resourceVersion", "creationTimestamp", "generateName", "managedFields"}
    metadata = {name: value for name, value in document["metadata"].items() if name not in own}
    return {**document, "metadata": metadata}


def write(trace: Trace, path: Path, *, about: str = "") -> None:
    """Write a workload as a trace, in gzip if the name ends in `.gz`."""
    lines = [
        trace_files.header(
            about=about, configuration=None if trace.configuration is None else dict(trace.configuration)
        )
    ]
    content = [*lines, *_lines(trace)]
    path.write_bytes(
        trace_files.packed(content) if path.name.endswith(".gz") else b"".join(map(trace_lines.encoded, content))
    )


def _lines(trace: Trace) -> list[AnyLine]:
    found: list[AnyLine] = [trace_lines.NodeSet(node=dict(node)) for node in trace.nodes]
    found += [trace_lines.ObjectSet(kind=kind, document=dict(document)) for kind, document in trace.objects]
    found += [
        trace_lines.Template(name=f"t{number}", pod=dict(document)) for number, document in enumerate(trace.templates)
    ]
    found += [
        trace_lines.PodArrived(
            name=each.name, template=f"t{each.template}", node=each.node, uid=each.uid, duration=_finite(each.duration)
        )
        for each in trace.placed
    ]
    pods: list[AnyLine] = [
        trace_lines.PodArrived(at=at, name=name, template=f"t{template}", duration=_finite(duration), uid=uid)
        for at, name, template, duration, uid in zip(
            trace.at.tolist(),
            trace.names,
            trace.template.tolist(),
            trace.duration.tolist(),
            trace.uids or [""] * len(trace),
            strict=True,
        )
    ]
    return [*found, *sorted([*pods, *trace.changes], key=lambda line: line.at)]


def _finite(duration: float) -> float | None:
    return None if duration == FOREVER else duration
