"""Images by name from podman's store, if podman is installed: it stores them, pulls them, and mounts their root file
systems.

Only its store is used; containers run in the same way whatever the source of their images.
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Final

from rota.worker.runtimes.container.archives import Settings
from rota.worker.runtimes.runtime_interface import LaunchError

_PROGRAM: Final = "podman"
_ALWAYS: Final = "Always"
_NEVER: Final = "Never"


class Podman:
    """A `Store`."""

    def __init__(self, program: str = _PROGRAM) -> None:
        self._program: Final = program

    async def find(self, name: str, *, policy: str) -> tuple[Path, Settings] | None:
        """See `Store.find`."""
        if shutil.which(self._program) is None:
            return None
        code, _, _ = await self._run("image", "exists", name)
        if code and policy == _NEVER:
            raise LaunchError("ErrImageNeverPull", f'image "{name}" is not in podman\'s store, and is never pulled')
        if code or policy == _ALWAYS:
            code, _, said = await self._run("pull", "--quiet", name)
            if code:
                raise LaunchError("ErrImagePull", f'image "{name}" could not be pulled: {_last(said)}')
        root = await self._answer("image", "mount", name)
        settings = await self._answer("image", "inspect", "--format", "{{json .Config}}", name)
        return Path(root), json.loads(settings)

    async def _answer(self, *args: str) -> str:
        code, output, said = await self._run(*args)
        if code:
            raise LaunchError("ImageInspectError", f"podman {' '.join(args)}: {_last(said)}")
        return output.strip()

    async def _run(self, *args: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            self._program,
            *args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, said = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode(), said.decode("utf-8", "replace")


def _last(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[-1] if lines else "podman does not say why"
