"""The user of a task, and the users that a pod may request.

A worker that runs as root runs tasks as a separate account (`Account`), which no person and no other program has. A pod
may request another uid or gid if it is not in use on the machine. For root, and for users and groups of the machine, an
administrator must start the worker with `--allow-root`.
"""

import grp
import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from rota.kit.errors import UserError

#: The default uid of tasks: above the range of login users, below the dynamic users of systemd.
_FIRST: Final = 60_800
_TRIES: Final = 100
#: By convention no files belong to this user and group.
_NOBODY: Final = 65_534
_REMEDY: Final = "leave it out, or have an administrator start the worker with --allow-root"


class Account(NamedTuple):
    """A uid and a gid."""

    uid: int
    gid: int
    name: str


def of_tasks() -> Account:
    """An account that is not used on this machine: the first free one from a number on, so it is the same each time."""
    for number in range(_FIRST, _FIRST + _TRIES):
        if not _is_known(pwd.getpwuid, number) and not _is_known(grp.getgrgid, number):
            return Account(number, number, "rota-task")
    raise UserError("no user number is free for tasks", "name a user with --run-as")


def named(text: str) -> Account:
    """An account by `USER` or `USER:GROUP`, names or numbers; UserError for an unknown name."""
    user, _, group = text.partition(":")
    try:
        found = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except KeyError:
        if not user.isdecimal():
            raise UserError(f"there is no user {user!r} on this machine", "name another with --run-as") from None
        uid = gid = int(user)
        name = "rota-task"
    else:
        uid, gid, name = found.pw_uid, found.pw_gid, found.pw_name
    if group:
        try:
            gid = int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
        except KeyError:
            raise UserError(f"there is no group {group!r} on this machine", "name another with --run-as") from None
    return Account(uid, gid, name)


def chosen(text: str) -> Account | None:
    """The account of `--run-as`; None if tasks run as the worker itself. UserError if that is impossible."""
    if os.geteuid():
        if text and named(text).uid != os.geteuid():
            raise UserError(f"only a worker that root starts can run tasks as {text}", "start it as root")
        return None
    account = named(text) if text else of_tasks()
    return account if account.uid else None


def tasks(run_as: str, *, allow_root: bool, own: tuple[Path, ...]) -> dict[str, Any]:
    """The settings of a worker that follow from `--run-as` and `--allow-root`.

    Rota's own files are hidden from tasks, unless they run explicitly as the worker's own user.
    """
    account = chosen(run_as)
    is_itself = bool(run_as) and account is None
    root = os.geteuid() == 0
    return {
        "run_as": account,
        "allow_root": allow_root or (is_itself and root),
        "own": () if is_itself else own,
    }


def refusal(pod: Mapping[str, Any], container: Mapping[str, Any], run_as: Account | None) -> str:
    """Why a process may not run as the user that its pod requests; empty if it may."""
    for path, number, look in _wanted(pod, container):
        own = run_as is not None and number == (run_as.uid if look is pwd.getpwuid else run_as.gid)
        if own or number == _NOBODY:
            continue
        if number == 0:
            return f"{path}: 0 is refused: tasks do not run as root here; {_REMEDY}"
        if _is_known(look, number):
            kind = "user" if look is pwd.getpwuid else "group"
            return f"{path}: {number} is refused: it is a {kind} of this machine; {_REMEDY}"
    return ""


def is_somebody(uid: int) -> bool:
    """Whether a uid is in use on this machine: root, or a known user."""
    return uid == 0 or (uid != _NOBODY and _is_known(pwd.getpwuid, uid))


def _wanted(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[tuple[str, int, Callable[[int], object]]]:
    spec = pod.get("spec") or {}
    shared, own = spec.get("securityContext") or {}, container.get("securityContext") or {}
    for name, look in (("runAsUser", pwd.getpwuid), ("runAsGroup", grp.getgrgid)):
        number = own.get(name, shared.get(name))
        if number is not None:
            yield f"securityContext.{name}", number, look
    if shared.get("fsGroup") is not None:
        yield "securityContext.fsGroup", shared["fsGroup"], grp.getgrgid
    for number in shared.get("supplementalGroups") or ():
        yield "securityContext.supplementalGroups", number, grp.getgrgid


def _is_known(look: Callable[[int], object], number: int) -> bool:
    try:
        look(number)
    except (KeyError, OverflowError):
        return False
    return True
