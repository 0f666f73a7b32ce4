"""The command of a container without an image: a program of this machine.

A container without a command runs the program that its image names, if there is one, so that `image: /usr/bin/true`
does what one would expect; else its args, if they begin with a program, as `kubectl run --image=x -- program` writes
them. If neither is a program, the launch fails.
"""

import shutil
from typing import Final

from rota.worker.runtimes.runtime_interface import Launch, LaunchError

#: Names that stand for no image at all.
_NO_IMAGES: Final = frozenset({"", "none", "process"})
_REMEDY: Final = "runtimeClassName: container would run it in its image"


def command(launch: Launch) -> list[str]:
    """The command line; LaunchError with a remedy if there is none."""
    if launch.command:
        return [*launch.command, *launch.args]
    if _is_program(launch.image, launch):
        return [launch.image, *launch.args]
    if launch.args and _is_program(launch.args[0], launch):
        return list(launch.args)
    if launch.image in _NO_IMAGES:
        raise LaunchError("CreateContainerError", "no command specified")
    raise LaunchError(
        "CreateContainerError",
        f'image "{launch.image}" is not used, as this container runs as a process of the machine, and no command that '
        f"is there says what to run: give it one (kubectl run NAME --image=none --command -- PROGRAM), or {_REMEDY}",
    )


def remark(launch: Launch) -> str:
    """The note for the user that the image is not used; empty if that is expected."""
    if launch.image in _NO_IMAGES or (not launch.command and launch.image.startswith("/")):
        return ""
    program = command(launch)[0]
    return f'image "{launch.image}" is not used: "{program}" runs as a process of this machine; {_REMEDY}'


def _is_program(name: str, launch: Launch) -> bool:
    return shutil.which(name, path=launch.env.get("PATH")) is not None
