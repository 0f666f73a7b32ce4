"""`rota federation decide`: reads scenarios, prints one decision per line."""

import contextlib
import gzip
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import click
import msgspec

from rota.federation import decide as decisions
from rota.kit.errors import UserError

STANDARD_INPUT: Final = Path("-")


def decide(files: tuple[Path, ...]) -> bool:
    """Print an answer for each scenario as soon as it is decided; returns whether all could be decided."""
    all_decided = True
    for number, line in _lines(files or (STANDARD_INPUT,)):
        answer = _answer(line, number)
        all_decided &= "error" not in answer
        click.echo(msgspec.json.encode(answer))
    return all_decided


def _answer(line: bytes, number: int) -> dict[str, Any]:
    name: object = None
    try:
        scenario = msgspec.json.decode(line)
        name = scenario.get("id") if isinstance(scenario, dict) else None
        return {"id": name, "decision": decisions.decide(scenario)}
    except msgspec.DecodeError as error:
        return {"id": name, "error": f"line {number}: not JSON: {error}"}
    except decisions.ScenarioError as error:
        return {"id": name, "error": f"line {number}: {error}"}
    except Exception as error:  # noqa: BLE001 - one line must not take the others with it
        traceback.print_exception(error)
        why = f"Rota failed on this, please report it: {type(error).__name__}: {error}"
        return {"id": name, "error": f"line {number}: {why}"}


def _lines(files: Iterable[Path]) -> Iterator[tuple[int, bytes]]:
    """All lines that are not blank, with their numbers in their files."""
    for file in files:
        with contextlib.ExitStack() as opened:
            source: Iterable[bytes] = sys.stdin.buffer
            if file != STANDARD_INPUT:
                source = opened.enter_context(_opened(file))
            yield from ((number, line) for number, line in enumerate(source, start=1) if line.strip())


def _opened(file: Path) -> gzip.GzipFile | IO[bytes]:
    try:
        return gzip.open(file) if file.suffix == ".gz" else file.open("rb")
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
