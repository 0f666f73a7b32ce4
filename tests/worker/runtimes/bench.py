"""A runtime on a bench: started, asked, and taken away with all that it made."""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rota.kit import system
from rota.worker.runtimes.container import engines
from rota.worker.runtimes.container.runtime import ContainerRuntime
from rota.worker.runtimes.process.cgroups import ControlGroups
from rota.worker.runtimes.runtime_interface import CONTAINER, Exit, Known, Launch, LogOptions

PATIENCE_S = 60.0
UID = "uid-1"
BUSYBOX = shutil.which("busybox") or "/bin/busybox"


def _has_groups() -> bool:
    groups = ControlGroups(f"rota-test-{os.getpid()}")
    groups.close()
    return groups.available


needs_groups = pytest.mark.skipif(not _has_groups(), reason="this machine lets nobody make control groups")


def _is_static(program: str) -> bool:
    """Whether a program needs no libraries, so that it is a root file system all by itself."""
    if not Path(program).exists():
        return False
    answer = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return "not a dynamic executable" in answer.stdout + answer.stderr


def why_no_containers() -> str:
    """Why the container runtime cannot be tested here; empty if it can."""
    if found := engines.problem():
        return found
    return "" if _is_static(BUSYBOX) else "busybox-static is not installed"


needs_containers = pytest.mark.skipif(bool(why_no_containers()), reason=why_no_containers() or "-")


def build_root(folder: Path) -> Path:
    """A root file system: busybox under the names of what it can do, a user, and nothing else."""
    (folder / "bin").mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "bin" / "busybox")
    names = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        if name != "busybox":
            (folder / "bin" / name).symlink_to("busybox")
    (folder / "etc").mkdir()
    (folder / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nweb:x:7001:7002:web:/srv:/bin/sh\n")
    (folder / "etc" / "group").write_text("root:x:0:\nweb:x:7002:\nextra:x:7003:web\n")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "mark").write_text("of the image\n")
    return folder


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to be so."""
    for _ in range(int(PATIENCE_S / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


def lives(*argv: str) -> bool:
    """Whether a process with this command line runs on the machine."""
    wanted = b"".join(one.encode() + b"\0" for one in argv)
    return any(_command(one) == wanted for one in Path("/proc").glob("[0-9]*"))


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


class Bench:
    """A runtime and what it told."""

    def __init__(self, folder: Path, *, runtime: str, image: str) -> None:
        self.folder = folder
        self.kind = runtime
        self.image = image
        self.exits: asyncio.Queue[Exit] = asyncio.Queue()
        self.runtime = self._new()
        self.known: dict[str, Known] = {}

    def _new(self) -> ContainerRuntime:
        return ContainerRuntime(
            self.folder, node="test", clock=system.SystemClock(), images=self.folder.parent / "images", trusted=True
        )

    async def open(self) -> None:
        self.known = {one.id: one for one in await self.runtime.open(self.exits.put_nowait)}

    async def reopen(self) -> None:
        """The agent goes away and comes back."""
        await self.runtime.close()
        self.runtime = self._new()
        await self.open()

    def launch(self, *argv: str, container: str = "c", run: int = 0, **fields: Any) -> Launch:
        path = {} if self.kind == CONTAINER else {"PATH": os.environ["PATH"]}
        base: dict[str, Any] = {
            "uid": UID, "namespace": "default", "pod": "p", "container": container, "run": run, "image": self.image,
            "command": argv, "args": (), "runtime": self.kind,
        }  # fmt: skip
        return Launch(**{**base, **fields, "env": {**path, **fields.get("env", {})}})

    async def start(self, *argv: str, **fields: Any) -> str:
        launch = self.launch(*argv, **fields)
        await self.runtime.start(launch)
        return launch.id

    async def exit(self) -> Exit:
        async with asyncio.timeout(PATIENCE_S):
            return await self.exits.get()

    async def log(self, container: str = "c", run: int = 0, **options: Any) -> bytes:
        pieces = self.runtime.logs(UID, container, run, LogOptions(**options))
        async with asyncio.timeout(PATIENCE_S):
            return b"".join([piece async for piece in pieces])

    async def says(self, wanted: bytes, container: str = "c", run: int = 0) -> None:
        """Wait for a line."""
        said = b""
        async with asyncio.timeout(PATIENCE_S):
            async for piece in self.runtime.logs(UID, container, run, LogOptions(follow=True)):
                said += piece
                if wanted in said:
                    return
        raise AssertionError(said)

    async def close(self) -> None:
        """End everything, and leave nothing."""
        for run in list(self.runtime.places()):
            await self.runtime.stop(run, 0)
        await until(lambda: not self.runtime.places())
        await self.runtime.clean_up(UID, logs=True)
        await self.runtime.close()


@contextlib.asynccontextmanager
async def opened(folder: Path, *, runtime: str, image: str) -> AsyncIterator[Bench]:
    """A bench, in a folder that is deeper than an address of a socket can be long."""
    made = Bench(folder / ("deep" * 20) / ("folder" * 10) / "worker", runtime=runtime, image=image)
    await made.open()
    try:
        yield made
    finally:
        await made.close()
