"""`rota replay`: repeats recorded decisions and prints the differences."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from rota.cli import output
from rota.cli.scheduler_options import SchedulerFiles
from rota.scheduler.recording.entries import Outcome
from rota.scheduler.recording.files import Reader
from rota.scheduler.recording.replay import Compared, Replay


def replay(*, file: Path, scheduler_files: SchedulerFiles, most_rows: int | None, as_json: bool) -> bool:
    """Print the replayed decisions of a recording; returns whether all are equal."""
    source = scheduler_files.source()
    again = Replay(Reader(file), source.registry(), loaded=None if source.file is None else source.load())
    with output.progress(f"replaying {file.name}") as advance:
        found = _Found()
        for each in again.decisions():
            found.add(each)
            advance(1)
    if as_json:
        output.document(found.document(file, again))
    else:
        _show(found, again, most=len(found.differences) if most_rows is None else most_rows)
    return not found.differences


class _Found:
    """The result of a replay so far."""

    def __init__(self) -> None:
        self.decisions = 0
        self.differences: list[Compared] = []
        self.kinds: Counter[str] = Counter()

    def add(self, each: Compared) -> None:
        """Add a decision."""
        self.decisions += 1
        if not each.same:
            self.differences.append(each)
            self.kinds[_kind(each)] += 1

    def document(self, file: Path, replay: Replay) -> dict[str, Any]:
        """The full result, for programs."""
        assert replay.beginning is not None
        return {
            "file": str(file),
            "recordedBy": replay.beginning.rota,
            "began": replay.beginning.at,
            "cutOff": replay.cut_off,
            "decisions": self.decisions,
            "differences": [
                {
                    "at": each.at,
                    "pod": each.pod,
                    "profile": each.profile,
                    "then": _outcome(each.then, each),
                    "now": _outcome(each.now, each),
                }
                for each in self.differences
            ],
        }


def _show(found: _Found, replay: Replay, *, most: int) -> None:
    if replay.cut_off:
        click.echo("The end of the recording is missing; this is about what is there.")
    if not found.differences:
        click.echo(f"{found.decisions} decisions, all as they were.")
        return
    kinds = ", ".join(f"{number} {kind}" for kind, number in found.kinds.most_common())
    click.echo(f"{found.decisions} decisions, {len(found.differences)} different: {kinds}.\n")
    rows = [
        (_time(each.at), each.pod, _told(each.then, each), _told(each.now, each)) for each in found.differences[:most]
    ]
    output.table(["TIME", "POD", "THEN", "NOW"], rows)
    if left := len(found.differences) - len(rows):
        click.echo(f"and {left} more; --all shows them")


def _kind(each: Compared) -> str:
    if each.then.node and each.now.node:
        return "on another node"
    if each.now.node:
        return "placed that were not"
    if each.then.node:
        return "not placed that were"
    return "refused otherwise"


def _told(outcome: Outcome, each: Compared) -> str:
    if outcome.node:
        return outcome.node
    if outcome.nominated:
        return f"evicts {', '.join(_names(outcome.victims, each))} on {outcome.nominated}"
    return f"no node: {outcome.message}"


def _outcome(outcome: Outcome, each: Compared) -> dict[str, Any]:
    told = {
        "node": outcome.node,
        "message": outcome.message,
        "nominated": outcome.nominated,
        "victims": _names(outcome.victims, each),
    }
    return {name: value for name, value in told.items() if value}


def _names(uids: Iterable[str], each: Compared) -> list[str]:
    return sorted(each.names.get(uid, uid) for uid in uids)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]
