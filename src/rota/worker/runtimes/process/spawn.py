"""Starts a process for the shim. Only the standard library, as in the shim.

Most of a short task's cost is its start, so there are two ways. `posix_spawn` is the cheapest and is enough for a plain
task of the shim's own user. A fork can do everything: the new process enters its cgroups and namespaces and switches
its user itself, before it executes the program. So the shim is never in a container's cgroup, and its own usage is not
charged to a container.
"""

import contextlib
import errno
import fcntl
import gc
import json
import os
import signal
import subprocess
import termios
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, NoReturn

from rota.worker.runtimes import terminals
from rota.worker.runtimes.process import isolation

#: The umask of tasks.
UMASK: Final = 0o022
_LAST_STREAM: Final = 2
#: Python ignores these signals, and ignored signals are inherited.
_AS_USUAL: Final = (signal.SIGPIPE, signal.SIGXFSZ)
#: Request fields that `posix_spawn` cannot handle.
_MORE: Final = ("user", "group", "groups", "tty", "stdin", "cgroups", "isolation", "no_new_privileges", "oom_score_adj")
_REPORT_BYTES: Final = 8192


class Started(NamedTuple):
    """A process, and the reading ends of its output by stream."""

    pid: int
    outputs: dict[str, IO[bytes]]


def keep_to_ourselves() -> None:
    """Let no process inherit the files that this program was started with; files that it opens are not inheritable."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - a list, since looking opens one more
        if int(name) > _LAST_STREAM:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)


def start(request: dict[str, Any], ends: terminals.Ends) -> Started:
    """Start the process of a request; OSError if that fails."""
    if any(request.get(name) not in (None, False, []) for name in _MORE) or request.get("groups") is not None:
        return _forked(request, ends)
    return _directly(request["argv"], request["env"], request.get("cwd") or "")


def _forked(request: dict[str, Any], ends: terminals.Ends) -> Started:
    ours: dict[str, int] = {}
    its: list[int] = []
    try:
        its.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if ends.stdin == subprocess.DEVNULL else ends.stdin)
        for name in ("stdout", "stderr"):
            if ends.output == subprocess.PIPE:
                ours[name], said = os.pipe()
                its.append(said)
            else:
                its.append(ends.output)
        report = _fork(request, its)
    except BaseException:
        for one in ours.values():
            os.close(one)
        raise
    finally:
        for one in its:
            if one not in {ends.stdin, ends.output}:
                os.close(one)
    return Started(report, {name: os.fdopen(one, "rb", 0) for name, one in ours.items()})


def _fork(request: dict[str, Any], streams: list[int]) -> int:
    """Fork and execute the program; OSError has the reason if that fails."""
    heard, said = os.pipe()
    try:
        pid = os.fork()
        if not pid:
            _become(request, streams, said)
    except BaseException:
        os.close(heard)
        raise
    finally:
        os.close(said)
    with os.fdopen(heard, "rb") as report:
        trouble = report.read(_REPORT_BYTES)  # empty if exec succeeds
    if trouble:
        os.waitpid(pid, 0)
        number, text, file = json.loads(trouble)
        raise OSError(number, text, file) if number else ValueError(text)
    return pid


def _become(request: dict[str, Any], streams: list[int], report: int) -> NoReturn:
    """In the new process: execute the program, or report the error and exit."""
    try:
        gc.disable()
        os.setsid()
        for number in _AS_USUAL:
            signal.signal(number, signal.SIG_DFL)
        for target, source in enumerate(streams):
            os.dup2(source, target)
        if request.get("tty"):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for folder in request.get("cgroups") or ():
            Path(folder, "cgroup.procs").write_text(str(os.getpid()))
        if request.get("oom_score_adj"):
            Path("/proc/self/oom_score_adj").write_text(str(request["oom_score_adj"]))
        if request.get("isolation"):
            isolation.enter(request["isolation"])
        _drop_rights(request)
        os.umask(UMASK)
        if request.get("cwd"):
            os.chdir(request["cwd"])
        program = _program(request["argv"][0], request["env"])
        os.execve(program, request["argv"], request["env"])  # noqa: S606 - that is the purpose
    except isolation.Refused as problem:
        os.write(report, json.dumps([0, str(problem), None]).encode()[:_REPORT_BYTES])
    except OSError as problem:
        file = problem.filename or request["argv"][0]
        os.write(report, json.dumps([problem.errno, problem.strerror, str(file)]).encode()[:_REPORT_BYTES])
    except BaseException as problem:  # noqa: BLE001 - this process must not go on as a second shim
        os.write(report, json.dumps([0, f"{type(problem).__name__}: {problem}"[:1000], None]).encode())
    finally:
        os._exit(127)


def _drop_rights(request: dict[str, Any]) -> None:
    user, group, groups = request.get("user"), request.get("group"), request.get("groups")
    if groups is not None:
        os.setgroups(groups)
    if group is not None:
        os.setresgid(group, group, group)
    if user is not None:
        os.setresuid(user, user, user)
    if request.get("no_new_privileges"):
        isolation.gain_nothing()


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
    """The path of a program, by its own PATH."""
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
