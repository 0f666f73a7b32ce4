"""`rota replay`: a scheduler's recorded decisions made again, by the same configuration or by another."""

import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from rota.cli import output
from rota.cli.commands import Command
from rota.kit import errors
from rota.scheduler import builtin, loading
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.loading import Loaded
from rota.scheduler.recording.entries import Outcome
from rota.scheduler.recording.files import Reader
from rota.scheduler.recording.replaying import Compared, Replay

#: The exit code if decisions came out otherwise though everything was the same.
DIFFERENT: Final = 3
_MOST_ROWS: Final = 100

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "replay",
    cls=Command,
    examples=[
        ("rota replay decisions.rec", "are all decisions made again as they were made?"),
        ("rota replay decisions.rec --config other.yaml", "what would these profiles have done instead?"),
        ("rota replay decisions.rec --config other.yaml --json", "every difference, for programs"),
    ],
)
@click.argument("file", type=_file)
@click.option("--config", "config_file", type=_file, metavar="FILE", help="Another KubeSchedulerConfiguration.")
@click.option("--all", "all_rows", is_flag=True, help=f"Show all differences, not only {_MOST_ROWS}.")
@output.json_option
@click.pass_context
def command(ctx: click.Context, *, file: Path, config_file: Path | None, all_rows: bool, as_json: bool) -> None:
    """Make the decisions of a recording (rota scheduler --record FILE) again.

    Each is made on the cluster as it was then, with the same seed and with what extenders said then. Without --config
    all must come out as they did; the exit code is 3 if one does not. With --config, the differences are what the other
    configuration would have decided in each situation.
    """
    replay = Replay(Reader(file), builtin.registry(), loaded=None if config_file is None else _configured(config_file))
    with output.progress(f"replaying {file.name}") as advance:
        found = _Found()
        for each in replay.decisions():
            found.add(each)
            advance(1)
    if as_json:
        output.document(found.document(file, replay))
    else:
        _show(found, replay, most=len(found.differences) if all_rows else _MOST_ROWS)
    if found.differences and config_file is None:
        ctx.exit(DIFFERENT)


class _Found:
    """What a replay has come to so far."""

    def __init__(self) -> None:
        self.decisions = 0
        self.differences: list[Compared] = []
        self.kinds: Counter[str] = Counter()

    def add(self, each: Compared) -> None:
        """Take in a decision."""
        self.decisions += 1
        if not each.same:
            self.differences.append(each)
            self.kinds[_kind(each)] += 1

    def document(self, file: Path, replay: Replay) -> dict[str, Any]:
        """Everything, for programs."""
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


def _configured(file: Path) -> Loaded:
    sys.path.insert(0, str(file.absolute().parent))
    try:
        return loading.load(file.read_bytes(), builtin.registry())
    except ConfigurationError as error:
        raise errors.UserError(f"{file}: {'; '.join(map(str, error.faults))}") from error


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
