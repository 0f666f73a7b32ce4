"""A script that runs one server and outlives its owner just long enough to remove it.

Started by `processes.Kept` with the owner holding the other end of its standard input. When the owner closes
that end, or dies in whatever way, the server and all of its children are killed and the given folder is
removed. Should the keeper itself be killed, the kernel kills the server (on Linux). Prints the server's
process id, ends with its exit code. Runs in an isolated interpreter (-I -S), so it imports the standard
library only.

    keeper.py OWNER_PID USER FOLDER LOG COMMAND [ARGUMENT]...      (USER: `uid:gid`, or `-` to stay who we
    are)
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LAST_CHANCE_S = 3.0


def family(pid: int) -> list[int]:
    """A process and its descendants, itself first; none if it does not run. Needs /proc to see children."""
    if not _runs(pid):
        return []
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        parent = _stat(int(entry.name))
        if parent is not None:
            children.setdefault(parent[1], []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def kill(pid: int) -> list[int]:
    """Kill a process and its descendants at one blow; returns who was killed."""
    # A stopped parent starts no further child between the look and the blow.
    _signal(pid, signal.SIGSTOP)
    members = family(pid)
    for member in members:
        _signal(member, signal.SIGKILL)
    return members


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and parent of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second column is the program's name in parentheses and may hold anything, even parentheses.
    state, parent = text.rpartition(")")[2].split()[:2]
    return state, int(parent)


def _runs(pid: int) -> bool:
    if Path("/proc/self/stat").exists():
        found = _stat(pid)
        return found is not None and found[0] not in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _quit(server: "subprocess.Popen[bytes]") -> None:
    """End it at once, with a last chance to give back what outlives a process: PostgreSQL has shared memory."""
    for member in family(server.pid):
        _signal(member, signal.SIGCONT)
    _signal(server.pid, signal.SIGQUIT)
    try:
        server.wait(_LAST_CHANCE_S)
    except subprocess.TimeoutExpired:
        kill(server.pid)
        server.wait()


def _die_with_keeper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main(arguments: list[str]) -> int:
    """Run the server until it ends by itself or its owner is gone."""
    owner, user, folder, log, *command = arguments
    uid, gid = (None, None) if user == "-" else map(int, user.split(":"))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with Path(log).open("ab") as output:
        server = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            # Safe here: the keeper has one thread, and the setting must come after the change of user.
            preexec_fn=_die_with_keeper,  # noqa: PLW1509
        )
    print(server.pid, flush=True)  # noqa: T201

    watched = [woken, sys.stdin.fileno()]
    if hasattr(os, "pidfd_open"):
        # Sees the owner's death even while some forked child of the owner still holds our standard input.
        try:
            watched.append(os.pidfd_open(int(owner)))
        except ProcessLookupError:
            watched = [sys.stdin.fileno()]
    while (code := server.poll()) is None:
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
        if set(ready) - {woken}:
            _quit(server)
            shutil.rmtree(folder, ignore_errors=True)
            return 0
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
