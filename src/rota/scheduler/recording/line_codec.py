"""Entries of a recording as lines of a trace, and back. Pure.

An entry is what a recorder keeps and a replay needs; a line is how it is written since version 2. Shapes become
templates: pods as on the wire that have the shape.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from rota.columns import shape_codec
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodShape
from rota.scheduler.recording import entries, reconstruction, trace_lines
from rota.scheduler.recording.entries import Advised, Beginning, Decided, Entry, Outcome, Pod, Refused, ShapeMade
from rota.scheduler.recording.trace_lines import AnyLine, Header

#: Digits of a time in a line: nanoseconds.
DIGITS: Final = 9


def lines(entry: Entry, at: float) -> Iterator[AnyLine]:
    """The lines of an entry; a beginning begins with its header."""
    at = round(at, DIGITS)
    match entry:
        case Beginning():
            yield from _beginning(entry)
        case ShapeMade():
            yield trace_lines.Template(at=at, name=str(entry.number), pod=shape_codec.document(entry.content))
        case entries.NodeSet():
            yield trace_lines.NodeSet(at=at, node=entry.node)
        case entries.NodeGone():
            yield trace_lines.NodeGone(at=at, name=entry.name)
        case entries.PodPlaced():
            yield trace_lines.PodPlaced(at=at, **pod_fields(entry.pod))
        case entries.PodRestated():
            yield trace_lines.PodRestated(at=at, **pod_fields(entry.pod))
        case entries.PodGone():
            yield trace_lines.PodRemoved(at=at, uid=entry.uid)
        case entries.ObjectPut():
            yield trace_lines.ObjectSet(at=at, kind=entry.kind, document=entry.document)
        case entries.ObjectGone():
            yield trace_lines.ObjectGone(at=at, kind=entry.kind, namespace=entry.namespace, name=entry.name)
        case Decided():
            yield _decision(entry, at)


def _beginning(entry: Beginning) -> Iterator[AnyLine]:
    yield Header(
        format=trace_lines.FORMAT,
        version=trace_lines.VERSION,
        rota=entry.rota,
        began=entry.at,
        clock=entry.clock,
        configuration=entry.configuration,
    )
    for row, node in enumerate(entry.nodes):
        # A row without a node is created and freed again, in the original order.
        yield trace_lines.NodeSet(node=node or reconstruction.placeholder(row))
    for row in entry.free:
        yield trace_lines.NodeGone(name=reconstruction.placeholder_name(row))


def pod_fields(pod: Pod) -> dict[str, Any]:
    """The fields of a line about a pod."""
    return {
        "uid": pod.uid,
        "name": pod.name,
        "template": str(pod.shape),
        "node": pod.node,
        "nominated": pod.nominated,
        "start_time": pod.start_time,
        "preempted": pod.preempted,
        "devices": pod.gpu_devices,
    }


def _decision(entry: Decided, at: float) -> trace_lines.Decision:
    advice = None
    if entry.advice is not None:
        refusals = {
            name: trace_lines.Refused(code=each.code, reasons=tuple(each.reasons))
            for name, each in entry.advice.refusals.items()
        }
        advice = trace_lines.Advice(refusals=refusals, scores=entry.advice.scores)
    nominations = {
        node: [trace_lines.PodPlaced(**pod_fields(pod)) for pod in pods] for node, pods in entry.nominations.items()
    }
    return trace_lines.Decision(
        at=at,
        **pod_fields(entry.pod),
        pod=entry.manifest,
        profile=entry.profile,
        start=entry.start,
        avoiding=tuple(entry.avoiding),
        make_room=entry.make_room,
        nominations=nominations,
        advice=advice,
        chosen=entry.outcome.node,
        message=entry.outcome.message,
        room=entry.outcome.nominated,
        victims=entry.outcome.victims,
    )


class EntryReader:
    """Turns lines into entries."""

    def __init__(self, header: Header) -> None:
        self._header: Final = header
        self._interner: Final = PodInterner()
        #: Keeps shapes alive, so that the content of each is computed once.
        self._shapes: Final[list[PodShape]] = []

    def beginning(self) -> Beginning:
        """The first entry; nodes follow as entries of their own."""
        head = self._header
        return Beginning(entries.VERSION, head.rota, head.began, head.configuration or {}, [], [], head.clock)

    def entries(self, found: Iterable[AnyLine]) -> Iterator[Entry]:
        """The entries of lines; lines about what the scheduler was told are left out, since a replay needs none."""
        for line in found:
            match line:
                case trace_lines.Template():
                    shape = self._interner.pod(line.pod).shape
                    self._shapes.append(shape)
                    yield ShapeMade(int(line.name), self._interner.content(shape))
                case trace_lines.NodeSet():
                    yield entries.NodeSet(line.node)
                case trace_lines.NodeGone():
                    yield entries.NodeGone(line.name)
                case trace_lines.PodPlaced():
                    yield entries.PodPlaced(_pod(line))
                case trace_lines.PodRestated():
                    yield entries.PodRestated(_pod(line))
                case trace_lines.PodRemoved():
                    yield entries.PodGone(line.uid)
                case trace_lines.ObjectSet():
                    yield entries.ObjectPut(line.kind, line.document)
                case trace_lines.ObjectGone():
                    yield entries.ObjectGone(line.kind, line.namespace, line.name)
                case trace_lines.Decision():
                    yield self._decided(line)
                case _:
                    pass

    def _decided(self, line: trace_lines.Decision) -> Decided:
        advice = None
        if line.advice is not None:
            refusals = {name: Refused(each.code, list(each.reasons)) for name, each in line.advice.refusals.items()}
            advice = Advised(refusals, line.advice.scores)
        return Decided(
            self._header.began + line.at,
            line.profile,
            _pod(line),
            line.start,
            list(line.avoiding),
            line.make_room,
            {node: [_pod(pod) for pod in pods] for node, pods in line.nominations.items()},
            advice,
            Outcome(line.chosen, line.message, line.room, line.victims),
            line.pod,
        )


def _pod(line: trace_lines.PodLine) -> Pod:
    return Pod(
        line.uid,
        line.name,
        int(line.template),
        line.node,
        line.nominated,
        line.start_time,
        line.preempted,
        line.devices,
    )
