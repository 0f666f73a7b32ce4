"""Hosts files for tasks, one for each namespace: the machine's own lines, then the names of services.

A task has the file mounted at `/etc/hosts`, and programs read it at every lookup, so names follow their services, also
while the worker is away. It is a bind mount of this file, so the file is changed in place and never replaced. A program
that reads during a change may see some lines of the old file and some of the new.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

MACHINE: Final = Path("/etc/hosts")
_HEAD: Final = "# Services of the cluster, kept by Rota.\n"
_MODE: Final = 0o644


def text(machine: str, entries: Iterable[tuple[str, list[str]]]) -> str:
    """The content of the file; the machine's own names take precedence."""
    taken = set(_names(machine))
    lines = []
    for address, names in entries:
        if free := [name for name in names if name not in taken]:
            lines.append(f"{address}\t{' '.join(free)}\n")
    before = machine if not machine or machine.endswith("\n") else f"{machine}\n"
    return before + _HEAD + "".join(lines)


def write(path: Path, content: str) -> bool:
    """Update a file in place; returns whether it changed."""
    new = content.encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        if os.pread(descriptor, len(new) + 1, 0) == new:
            return False
        os.fchmod(descriptor, _MODE)
        os.pwrite(descriptor, new, 0)
        os.ftruncate(descriptor, len(new))
    finally:
        os.close(descriptor)
    return True


def of_machine(path: Path = MACHINE) -> str:
    """The machine's own hosts file; empty if there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _names(content: str) -> Iterator[str]:
    for line in content.splitlines():
        yield from line.partition("#")[0].split()[1:]
