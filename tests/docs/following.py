"""A page of docs/howto, followed word for word: files saved, commands run in one shell, output compared.

Blocks are ```sh (commands), ```text (what the commands before print) and ```yaml NAME (a file to save). Commands that
end in `&` run until the page is done.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rota.testing import process_cluster

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
_MARK = "@@@"
_UP = "timeout 60 sh -c \"until grep -q 'Rota is up' {log}; do sleep 0.1; done\""
_TAKING = "timeout 60 sh -c \"until grep -q 'Taking notices at' {log}; do sleep 0.1; done\""
_FEDERATED = "timeout 60 sh -c \"until grep -q 'The federation is up' {log}; do sleep 0.1; done\""
_SCHEDULING = "timeout 60 sh -c \"until grep -q 'cluster known' {log}; do sleep 0.1; done\""


class Block(NamedTuple):
    language: str
    file: str
    text: str


class Followed(NamedTuple):
    """What the page says that commands print, and what they printed."""

    promised: str
    printed: str


def blocks(page: str) -> Iterator[Block]:
    for info, text in re.findall(r"```(\S+(?: \S+)?)\n(.*?)```", (HOWTO / page).read_text(), re.DOTALL):
        language, _, file = info.partition(" ")
        yield Block(language, file, text)


def follow(
    page: str, folder: Path, *, patience_s: float = 110, instead: Mapping[str, str] | None = None
) -> list[Followed]:
    """Follow a page; fails if a command does, or if all of them together take too long.

    `instead` replaces words of commands, as ports that may be in use here.
    """
    lines = ["set -eu", "pids=", "trap 'kill $pids 2>/dev/null || :; wait' EXIT"]
    promises: dict[int, str] = {}
    last = -1
    found = list(blocks(page))
    for number, block in enumerate(found):
        if block.file:
            (folder / block.file).write_text(block.text)
        elif block.language == "sh":
            text = block.text
            for word, other in (instead or {}).items():
                text = text.replace(word, other)
            commands = _commands(text, folder / f"{number}.log")
            if _promises_an_error(found[number + 1 :]) and "2>&1" not in block.text:
                commands = _failing(commands)
            lines += [f"echo '{_MARK} {number}'", *commands]
            last = number
        else:
            assert block.language == "text"
            promises[last] = block.text
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder), "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            ["sh", "-c", "\n".join(lines)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience_s,
        )
    finally:
        _end_tasks(folder)
    said = "\n".join(log.read_text() for log in sorted(folder.glob("*.log")))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{said}"
    printed = dict(re.findall(rf"^{_MARK} (\d+)\n(.*?)(?=^{_MARK}|\Z)", done.stdout, re.DOTALL | re.MULTILINE))
    return [Followed(promise.rstrip("\n"), printed[str(number)].rstrip("\n")) for number, promise in promises.items()]


def _end_tasks(folder: Path) -> None:
    """End what a page's cluster has left running: tasks outlive it, as they should, but not the test."""
    process_cluster.end_tasks(folder)
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and (entry / "cwd").readlink().is_relative_to(folder):
                os.kill(int(entry.name), signal.SIGKILL)


def _promises_an_error(after: list[Block]) -> bool:
    return bool(after) and after[0].language == "text" and after[0].text.startswith("rota: ")


def _failing(commands: Iterable[str]) -> Iterator[str]:
    yield from (f"if {{ {command}; }} 2>&1; then exit 1; fi" for command in commands)


def _commands(text: str, log: Path) -> Iterator[str]:
    command = text.strip()
    if not command.endswith("&"):
        yield command
        return
    yield f'{command[:-1]} > {log} 2>&1 & pids="$pids $!"'
    # The page's reader sees that it is up before typing on.
    seen = (
        _UP
        if "rota up" in command
        else _FEDERATED
        if "federation up" in command
        else _TAKING
        if "--webhook" in command
        else _SCHEDULING
    )
    yield seen.format(log=log)
