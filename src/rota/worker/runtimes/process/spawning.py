"""Starts a process for the nursery. Only the standard library, as in all of the nursery.

Most of what a short task costs its worker is its start, so there are two ways: the library's `Popen`, which can do
everything, and `posix_spawn`, which costs half of it and can do what most tasks need. This program has one thread, so
the folder and the mask of modes that a child is to have are simply the nursery's own at that moment.
"""

import contextlib
import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from rota.worker.runtimes import terminals

#: What files that tasks make may not be.
UMASK: Final = 0o022
_LAST_STREAM: Final = 2
#: Python ignores these, and what is ignored is inherited.
_AS_USUAL: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class Started(NamedTuple):
    """A process, and where its output is read, by the names of the streams."""

    pid: int
    outputs: dict[str, IO[bytes]]


def keep_to_ourselves() -> None:
    """Let no process inherit a file that this program was started with; those that it opens are not inherited."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - a list, since looking opens one more
        if int(name) > _LAST_STREAM:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)


def start(request: dict[str, Any], ends: terminals.Ends) -> Started:
    """Start what a request asks for, in the control groups in which this program is; OSError if that fails."""
    talks = request.get("tty") or request.get("stdin")
    as_another = any(request.get(name) is not None for name in ("user", "group", "groups"))
    if talks or as_another:
        return _with_library(request, ends)
    return _directly(request["argv"], request["env"], request.get("cwd") or "")


def _with_library(request: dict[str, Any], ends: terminals.Ends) -> Started:
    process = subprocess.Popen(
        [*terminals.OWN, *request["argv"]] if request.get("tty") else request["argv"],
        env=request["env"],
        cwd=request.get("cwd") or None,
        stdin=ends.stdin,
        stdout=ends.output,
        stderr=ends.output,
        start_new_session=True,
        user=request.get("user"),
        group=request.get("group"),
        extra_groups=request.get("groups"),
        umask=UMASK,
        bufsize=0,
    )
    # From now on it is reaped by the nursery and not by the library.
    process.returncode = 0
    outputs = {"stdout": process.stdout, "stderr": process.stderr}
    return Started(process.pid, {name: pipe for name, pipe in outputs.items() if pipe is not None})


def _directly(argv: list[str], env: dict[str, str], cwd: str) -> Started:
    ours: list[int] = []
    opened: list[int] = []
    try:
        opened.append(back := os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        opened.append(nothing := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        actions = [(os.POSIX_SPAWN_DUP2, nothing, 0)]
        for stream in (1, _LAST_STREAM):
            heard, said = os.pipe()
            ours.append(heard)
            opened.append(said)
            actions.append((os.POSIX_SPAWN_DUP2, said, stream))
        try:
            if cwd:
                os.chdir(cwd)
            program = _program(argv[0], env)
            pid = os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigdef=_AS_USUAL)
        finally:
            os.fchdir(back)
    except BaseException:
        for one in ours:
            os.close(one)
        raise
    finally:
        for one in opened:
            os.close(one)
    return Started(pid, {name: os.fdopen(one, "rb", 0) for name, one in zip(("stdout", "stderr"), ours, strict=True)})


def _program(name: str, env: dict[str, str]) -> str:
    """Where a program is: in the first folder of its own PATH that has it."""
    if "/" in name:
        return name
    denied = False
    for folder in os.get_exec_path(env):
        path = Path(folder, name)
        if path.is_file():
            if os.access(path, os.X_OK):
                return str(path)
            denied = True
    number = errno.EACCES if denied else errno.ENOENT
    raise OSError(number, os.strerror(number), name)
