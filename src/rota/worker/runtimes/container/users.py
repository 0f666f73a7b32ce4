"""The user of a container: uid and gids, from the pod, or from the image's own /etc/passwd and /etc/group.

Files are looked up as the container will see them: a link in an image points into the image.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rota.worker.runtimes.runtime_interface import LaunchError

_MOST_LINKS = 40


class User(NamedTuple):
    """A uid and gids."""

    uid: int
    gid: int
    groups: Sequence[int] = ()


def find(root: Path, image_user: str, *, user: int | None, group: int | None) -> User:
    """The user: the pod's, else the image's, else root; LaunchError for an unknown name."""
    name, _, group_name = (image_user if user is None else str(user)).partition(":")
    found = next((one for one in _entries(root, "etc/passwd", 7) if name in {one[0], one[2]}), None)
    if found is None and name and not name.isdecimal():
        raise LaunchError("CreateContainerConfigError", f'the image has no user "{name}"')
    uid = int(found[2]) if found is not None else int(name or 0)
    gid = int(found[3]) if found is not None else 0
    groups = [
        int(one[2])
        for one in _entries(root, "etc/group", 4)
        if found is not None and found[0] in one[3].split(",") and not group_name
    ]
    if group is not None:
        gid = group
    elif group_name:
        gid = _group(root, group_name)
    return User(uid, gid, [one for one in groups if one != gid])


def resolve(root: Path, path: str) -> Path | None:
    """The path on the machine of a path in the container; None if it does not exist or has a loop."""
    left = [part for part in path.split("/") if part][::-1]
    here: list[str] = []
    for _ in range(_MOST_LINKS + len(left)):
        if not left:
            return root.joinpath(*here)
        part = left.pop()
        if part == "..":
            here = here[:-1]
            continue
        at = root.joinpath(*here, part)
        try:
            target = os.readlink(at)  # noqa: PTH115 - a Path would lose what a leading slash means
        except FileNotFoundError:
            return None
        except OSError:
            here.append(part)  # not a link
            continue
        if target.startswith("/"):
            here = []
        left += [one for one in target.split("/") if one and one != "."][::-1]
    return None


def _group(root: Path, name: str) -> int:
    if name.isdecimal():
        return int(name)
    for one in _entries(root, "etc/group", 4):
        if one[0] == name:
            return int(one[2])
    raise LaunchError("CreateContainerConfigError", f'the image has no group "{name}"')


def _entries(root: Path, path: str, fields: int) -> Iterator[list[str]]:
    found = resolve(root, path)
    if found is None or not found.is_file():
        return
    for line in found.read_text("utf-8", "replace").splitlines():
        parts = line.split(":")
        if len(parts) == fields and parts[2].isdecimal() and (fields == 4 or parts[3].isdecimal()):
            yield parts
