"""The mount namespace of one process, made between fork and exec. Only the standard library, as in the shim.

A plan is a dictionary from the start request:

    mounts           bind mounts: source, inside (a path below the source), target, read_only, own, made_as
    hidden           folders that are covered with an empty one, and files that are covered with nothing
    exposed          folders below hidden ones that stay visible
    forbidden        folders that no volume may expose
    user_namespace   whether the process is not root, and needs a user namespace in order to mount

A source is opened once, component by component below its volume and without following links, and the open file is what
is mounted: a link that a container creates meanwhile changes nothing. The machine's files stay unchanged with one
exception: a mount target must exist, so an empty folder or file is created if it is missing.
"""

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUSER: Final = 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
#: Mount flags of `statvfs` with the same values as in `mount`. They are kept when a mount becomes read-only.
_KEPT: Final = 2 | 4 | 8 | 1024 | 2048
_PR_SET_NO_NEW_PRIVS: Final = 38
_COVER: Final = b"mode=711,size=64k"
_SEARCH: Final = os.O_PATH | os.O_CLOEXEC
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """A volume may not be mounted; the message says why."""


def enter(plan: Mapping[str, Any]) -> None:
    """Enter a mount namespace made by the plan; OSError names what is not available, Refused what is not allowed."""
    uid, gid = os.geteuid(), os.getegid()
    in_user_namespace = bool(plan.get("user_namespace"))
    _check(_libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if in_user_namespace else 0)), "namespaces")
    if in_user_namespace:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mount("", "/", flags=_MS_REC | _MS_PRIVATE)
    with contextlib.ExitStack() as opened:
        sources = [opened.enter_context(_source(one, plan.get("forbidden") or ())) for one in plan.get("mounts") or ()]
        kept = [(path, opened.enter_context(_opened(path))) for path in plan.get("exposed") or ()]
        for path in plan.get("hidden") or ():
            _hide(path)
        for path, file in kept:
            Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{file}", path, flags=_MS_BIND | _MS_REC)
        for one, file in zip(plan.get("mounts") or (), sources, strict=True):
            _bind(file, one)


def gain_nothing() -> None:
    """Set no_new_privs: setuid bits and file capabilities have no effect for this process."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no-new-privileges")


def problem(plan: Mapping[str, Any]) -> str:
    """Why this user cannot have such a namespace here; empty if it can. Tried in a child process."""
    heard, said = os.pipe()
    child = os.fork()
    if not child:
        try:
            enter(plan)
        except OSError as refusal:
            os.write(said, str(refusal.strerror or refusal).encode() or b"?")
        finally:
            os._exit(0)
    os.close(said)
    try:
        return os.read(heard, 4096).decode("utf-8", "replace")
    finally:
        os.close(heard)
        os.waitpid(child, 0)


def inside(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of some folders or files, or below one."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in folders)


@contextlib.contextmanager
def _opened(path: str | Path, *, at: int | None = None, flags: int = 0) -> Iterator[int]:
    file = os.open(path, _SEARCH | flags, dir_fd=at)
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _source(mount: Mapping[str, Any], forbidden: Sequence[str]) -> Iterator[int]:
    """The source of a mount, opened."""
    parts = [one for one in (mount.get("inside") or "").split("/") if one not in {"", "."}]
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(_opened(mount["source"]))
        for part in parts:
            file = opened.enter_context(_opened(part, at=file, flags=os.O_NOFOLLOW))
            if part == ".." or stat.S_ISLNK(os.fstat(file).st_mode):
                raise Refused(f"the path {mount['inside']} in the volume {mount['source']} leads through a link")
        found = os.readlink(f"/proc/self/fd/{file}")  # noqa: PTH115 - the kernel's own word for what was opened
        if not mount.get("own") and inside(found, forbidden):
            raise Refused(f"{mount['source']} is no volume: it leads to Rota's own files, which tasks may not see")
        yield file


def _bind(file: int, mount: Mapping[str, Any]) -> None:
    target = Path(mount["target"])
    if stat.S_ISDIR(os.fstat(file).st_mode):
        target.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif not target.exists():
        with _acting_as(mount.get("made_as")):
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            target.touch(mode=0o644)
    _mount(f"/proc/self/fd/{file}", str(target), flags=_MS_BIND)
    if mount.get("read_only"):
        kept = os.statvfs(target).f_flag & _KEPT
        _mount("", str(target), flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)


@contextlib.contextmanager
def _acting_as(who: Sequence[int] | None) -> Iterator[None]:
    """Create files as a user and a group, with their permissions only."""
    if who is None:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(who[1])
    os.seteuid(who[0])
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _hide(path: str) -> None:
    found = Path(path)
    if found.is_dir():
        _mount("tmpfs", path, kind="tmpfs", data=_COVER)
    elif found.exists():
        _mount(os.devnull, path, flags=_MS_BIND)


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0, data: bytes = b"") -> None:
    answer = _libc.mount(
        os.fsencode(source) or None, os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), data or None
    )
    _check(answer, target)


def _check(answer: int, what: str) -> None:
    if answer:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
