"""The journal of a cluster: what was placed on which machine, and which operation is in progress.

    cluster.yaml          the file
    cluster.yaml.journal  one JSON object per line, on disk before the step that it announces

A member is written before anything is placed on its machine and struck out after everything is removed from it. So a
member that has left the file is still known, and nothing is left behind. The last line of a killed runner may be
incomplete; it is ignored. One runner at a time holds the journal.
"""

import dataclasses
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rota.kit import errors
from rota.lifecycle.cluster_spec import Member, Role
from rota.lifecycle.steps import Plan, Step


@dataclass(slots=True, kw_only=True)
class Record:
    """What the lines say."""

    cluster: str = ""
    inventory: dict[str, Member] = field(default_factory=dict)
    #: The operation that has not ended: its verb, when it began, its steps, and those that are done.
    verb: str = ""
    began_at: float = 0.0
    steps: tuple[str, ...] = ()
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)

    def take(self, line: Mapping[str, Any]) -> None:
        """Add one line."""
        match line.get("is"):
            case "cluster":
                self.cluster = line["name"]
            case "placed":
                self.inventory[line["member"]["name"]] = _member(line["member"])
            case "removed":
                self.inventory.pop(line["name"], None)
            case "begun":
                self.verb, self.began_at, self.steps = line["verb"], line["at"], tuple(line["steps"])
                self.done, self.failed = set(), {}
            case "done":
                self.done.add(line["step"])
                self.failed.pop(line["step"], None)
            case "failed":
                self.failed[line["step"]] = line["why"]
            case "ended":
                self.verb, self.steps, self.done, self.failed = "", (), set(), {}


def path_of(file: Path) -> Path:
    """The journal of a cluster's file."""
    return file.with_name(f"{file.name}.journal")


def read(path: Path) -> Record:
    """What a journal says; an empty record without one."""
    found = Record()
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return found
    except OSError as problem:
        raise errors.UserError(f"cannot read {path}: {problem.strerror}") from None
    for number, line in enumerate(lines):
        try:
            found.take(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            if number < len(lines) - 1:
                raise errors.UserError(
                    f"line {number + 1} of {path} is no line of a journal", "restore the file from a copy"
                ) from None
    return found


class Journal:
    """The journal of one runner."""

    def __init__(self, path: Path, cluster: str) -> None:
        self._path: Final = path
        try:
            self._file = path.open("a+b")
        except OSError as problem:
            raise errors.UserError(f"cannot write {path}: {problem.strerror}") from None
        try:
            self.record: Final = self._taken(cluster)
        except BaseException:
            self._file.close()
            raise
        if not self.record.cluster:
            self.write({"is": "cluster", "name": cluster})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Without a member on any machine there is nothing to remember.
        if not self.record.inventory:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def placing(self, member: Member) -> None:
        """A member is about to be placed on its machine."""
        if self.record.inventory.get(member.name) != member:
            self.write({"is": "placed", "member": dataclasses.asdict(member)})

    def removed(self, name: str) -> None:
        """Nothing of a member is left on its machine."""
        self.write({"is": "removed", "name": name})

    def begin(self, verb: str, plan: Plan, *, at: float) -> None:
        """An operation begins."""
        self.write({"is": "begun", "verb": verb, "at": at, "steps": [one.key for one in plan.steps]})

    def done(self, step: Step) -> None:
        """A step is done."""
        self.write({"is": "done", "step": step.key})

    def failed(self, step: Step, why: str) -> None:
        """A step has failed."""
        self.write({"is": "failed", "step": step.key, "why": why})

    def end(self) -> None:
        """The operation is done."""
        self.write({"is": "ended"})

    def write(self, line: Mapping[str, Any]) -> None:
        """Write a line to the disk."""
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.record.take(line)

    def _taken(self, cluster: str) -> Record:
        """Lock the file and read it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.UserError(f"another command works with {self._path}", "wait until it has ended") from None
        if not self._path.exists() or os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino:
            # The runner before has removed the file between our opening and locking it.
            raise errors.UserError(f"another command has just ended with {self._path}", "run this one again")
        self._path.chmod(0o600)
        # First, since a line without its end may be readable: it must not be known here and absent from the file.
        self._drop_torn_line()
        record = read(self._path)
        if record.cluster not in {"", cluster}:
            raise errors.UserError(
                f"{self._path} is of the cluster {record.cluster}", "use another file for another cluster"
            )
        return record

    def _drop_torn_line(self) -> None:
        self._file.seek(0)
        whole = self._file.read()
        if whole and not whole.endswith(b"\n"):
            self._file.truncate(whole.rfind(b"\n") + 1)


def _member(found: Mapping[str, Any]) -> Member:
    return Member(**{**found, "role": Role(found["role"]), "options": tuple(found["options"])})
