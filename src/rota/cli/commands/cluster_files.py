"""Reads clusters from files: a trace or dump of Rota, or objects in JSON or YAML as `kubectl get -o` prints them."""

import sys
from pathlib import Path
from typing import Final

import msgspec

from rota.kit.errors import UserError
from rota.scheduler.config import documents
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.recording import trace_files
from rota.scheduler.recording.trace_files import TraceReader
from rota.scheduler.snapshot import cluster_dump

STANDARD_INPUT: Final = Path("-")


def objects(file: Path) -> list[tuple[str, object]]:
    """All objects of a file, each with a path that names it; of a trace, those at its beginning."""
    if is_trace(file):
        return list(cluster_dump.objects(TraceReader(file)))
    text = read(file)
    try:
        found = [msgspec.json.decode(text)]  # dumps are large, and JSON is parsed a hundred times as fast as YAML
    except msgspec.DecodeError:
        try:
            found = documents.parse_all(text)
        except ConfigurationError as error:
            raise UserError(f"{file}: {error}") from error
    several = len(found) > 1
    return [(f"{file}[{position}]" if several else str(file), each) for position, each in enumerate(found)]


def is_trace(file: Path) -> bool:
    """Whether a file is a trace, by its beginning."""
    if file == STANDARD_INPUT:
        return False
    try:
        with file.open("rb") as opened:
            return trace_files.looks_like(opened.read(32))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error


def read(file: Path) -> bytes:
    """The bytes of a file or of standard input."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
