"""Checks that a container's program exists in its image, by the container's own PATH, before the start."""

import os
from collections.abc import Iterable
from pathlib import Path

from rota.worker.runtimes.container import users
from rota.worker.runtimes.runtime_interface import LaunchError, Mount


def check(root: Path, program: str, *, path: str, cwd: str, mounts: Iterable[Mount]) -> None:
    """LaunchError for a program that is missing or not executable; a path below a volume is not checked."""
    if "/" in program:
        places = [program if program.startswith("/") else f"{cwd}/{program}"]
    else:
        places = [f"{folder or cwd}/{program}" for folder in path.split(":")]
    targets = [one.target.rstrip("/") for one in mounts]
    if any(place == target or place.startswith(f"{target}/") for place in places for target in targets):
        return
    found = [one for place in places if (one := users.resolve(root, place)) is not None and one.is_file()]
    if not found:
        raise LaunchError("RunContainerError", f'exec: "{program}": no such file or directory in the image')
    if not any(os.access(one, os.X_OK) for one in found):
        raise LaunchError("RunContainerError", f'exec: "{program}": permission denied')
