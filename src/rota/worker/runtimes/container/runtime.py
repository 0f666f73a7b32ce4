"""The container runtime: containers in root file systems of their own, and processes of the machine beside them.

For the shim a container is a process: the engine, which sets it up, forwards signals to it, and exits with its code. So
limits, output, restarts and recovery are those of the process runtime, whose class this one extends. This module adds
images, bundles, and commands in containers.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rota.kit import logs
from rota.kit.clock import Clock
from rota.worker import identities
from rota.worker.runtimes.container import bundles, engines, namespaces, programs, users
from rota.worker.runtimes.container.engines import Engine
from rota.worker.runtimes.container.images import Image, Images
from rota.worker.runtimes.container.podman import Podman
from rota.worker.runtimes.process import command_output
from rota.worker.runtimes.process.runtime import ProcessRuntime
from rota.worker.runtimes.runtime_interface import (
    CONTAINER,
    Exit,
    Inside,
    Known,
    Launch,
    LaunchError,
    LogOptions,
    Mount,
    OnExit,
    Place,
    parse_run_id,
)

log = logs.get(__name__)

#: How often a starting container is checked.
_LOOK_S: Final = 0.005
#: The interval of image garbage collection.
_COLLECT_S: Final = 3600.0
#: Files of the machine that are mounted into every container.
_SHARED: Final = ("/etc/hosts", "/etc/resolv.conf")
#: Processes of the engine within a container's limit: for setup, forwarding, and commands inside.
_ENGINE_PIDS: Final = 3
#: Mount points in a bundle.
_SOURCES: Final = "sources"
_OUTER_ENVIRONMENT: Final = {"PATH": os.environ.get("PATH", os.defpath)}


class ContainerRuntime(ProcessRuntime):
    """A `Runtime`: launches that ask for it get a root file system, others are processes."""

    def __init__(
        self,
        folder: Path,
        *,
        node: str,
        clock: Clock,
        images: Path,
        own: Sequence[Path] = (),
        trusted: bool = False,
    ) -> None:
        """`images` is the folder in which an operator puts images for this node.

        `trusted` says whether pods may act as root: use images anywhere, and access the machine as root.
        """
        super().__init__(folder, node=node, clock=clock, own=own)
        self._trusted: Final = trusted
        self._looking: Final = clock
        self._bundles: Final = folder / "bundles"
        self._namespaces: Final = folder / "namespaces"
        self._engine: Final = Engine(folder / "engine")
        self._images: Final = Images(
            folder=images, unpacked=images / ".unpacked", store=Podman(), clock=clock, anywhere=trusted
        )
        #: Containers of a pod start concurrently, and the first makes the shared namespaces.
        self._sharing: Final = asyncio.Lock()
        #: Runs that the engine is setting up: `start` handles their end first.
        self._starting: Final[dict[str, Exit | None]] = {}
        self._tell: OnExit | None = None

    async def open(self, on_exit: OnExit) -> Sequence[Known]:
        """See `Runtime.open`."""
        self._tell = on_exit
        known = await super().open(self._told)
        await self._sweep()
        self._begin(self._collect_images())
        return known

    async def start(self, launch: Launch) -> None:
        """See `Runtime.start`."""
        if launch.runtime != CONTAINER:
            await super().start(launch)
            return
        engines.check()
        if self.keeps(launch.id):
            return  # a repeated start
        bundle = self._bundles / launch.id
        if not (bundle / engines.CONFIG).exists():
            image = await self._images.find(launch.image, policy=launch.pull_policy)
            async with self._sharing:
                shared = await asyncio.to_thread(self._share, launch)
            await asyncio.to_thread(self._write, launch, image, bundle, shared)
        self._starting[launch.id] = None
        try:
            await super().start(self._outer(launch, bundle))
            await self._settled(launch.id, bundle)
        except LaunchError:
            # Nothing of it runs. After any other error a process may, with this bundle.
            self._starting.pop(launch.id)
            await self._remove(launch.id)
            raise
        finally:
            ended = self._starting.pop(launch.id, None)
            if ended is not None:
                self._told(ended)

    async def execute(self, launch: Launch, command: Sequence[str]) -> tuple[int, bytes]:
        """See `Runtime.execute`."""
        if launch.runtime != CONTAINER:
            return await super().execute(launch, command)
        self._check_runs(launch)
        with tempfile.NamedTemporaryFile(dir=self._bundles / launch.id, prefix="asked-") as pid_file:

            def end() -> None:
                # The engine has exited, but not the processes that it started in the container.
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int(pid_file.read()), signal.SIGKILL)

            how = self._inside(launch, command, tty=False, pid_file=pid_file.name)
            return await command_output.output(how, on_cut_off=end)

    def asking_signal(self, run: str) -> int:
        """See `ProcessRuntime.asking_signal`; an image may have its own stop signal."""
        try:
            config = json.loads((self._bundles / run / engines.CONFIG).read_bytes())
        except FileNotFoundError:
            return super().asking_signal(run)
        return int(config["annotations"][bundles.STOP_SIGNAL])

    def remark(self, launch: Launch) -> str:
        """See `Runtime.remark`."""
        return "" if launch.runtime == CONTAINER else super().remark(launch)

    def inside(self, launch: Launch, command: Sequence[str], *, tty: bool = False) -> Inside:
        """See `Runtime.inside`."""
        if launch.runtime != CONTAINER:
            return super().inside(launch, command, tty=tty)
        return self._inside(launch, command, tty=tty)

    def folders(self, uid: str) -> Sequence[Path]:
        """See `Runtime.folders`."""
        layers = [one / engines.OWN for one in _entries(self._bundles) if parse_run_id(one.name)[0] == uid]
        return [*super().folders(uid), *layers]

    async def forget(self, run: str) -> None:
        """See `Runtime.forget`."""
        await super().forget(run)
        await self._remove(run)

    async def clean_up(self, uid: str, *, logs: bool) -> None:
        """See `Runtime.clean_up`."""
        for bundle in _entries(self._bundles):
            if parse_run_id(bundle.name)[0] == uid:
                await self._remove(bundle.name)
        if (self._namespaces / uid).exists():
            await asyncio.to_thread(namespaces.removed, self._namespaces / uid)
        await super().clean_up(uid, logs=logs)

    async def close(self) -> None:
        """See `Runtime.close`."""
        await self._sweep()
        await super().close()

    async def _sweep(self) -> None:
        """Remove files of runs that have ended, and of pods of which nothing runs."""
        running = set(self.places()) | set(self._starting)
        pods = {parse_run_id(run)[0] for run in running}
        for bundle in _entries(self._bundles):
            if bundle.name not in running:
                await self._remove(bundle.name)
        for shared in _entries(self._namespaces):
            if shared.name not in pods:
                await asyncio.to_thread(namespaces.removed, shared)

    async def _collect_images(self) -> None:
        """Garbage collect images periodically."""
        while True:
            used = {one.resolve() for one in (bundle / engines.LOWER for bundle in _entries(self._bundles))}
            for name in await self._images.collect(used):
                log.info("an unpacked image was removed: unused for a week", image=name)
            await self._looking.sleep(_COLLECT_S)

    def _told(self, ended: Exit) -> None:
        if ended.id in self._starting:
            self._starting[ended.id] = ended
            return
        if (self._bundles / ended.id).exists():
            self._begin(self._remove(ended.id))
        if self._tell is not None:
            self._tell(ended)

    async def _settled(self, run: str, bundle: Path) -> None:
        """Wait until a container is created; LaunchError if the engine exits before."""
        while self._starting[run] is None and not (bundle / engines.PID).exists():
            await self._looking.sleep(_LOOK_S)
        if (bundle / engines.PID).exists():
            return
        said = (bundle / engines.ERRORS).read_text() if (bundle / engines.ERRORS).exists() else ""
        if not said:
            # The engine did not get this far.
            pieces = [piece async for piece in self.logs(*parse_run_id(run), LogOptions(tail_lines=1))]
            said = b"".join(pieces).decode("utf-8", "replace")
        lines = said.strip().splitlines() or ["nothing is said about why"]
        await super().forget(run)
        raise LaunchError("RunContainerError", f"the container could not be set up: {lines[-1]}")

    def _share(self, launch: Launch) -> dict[str, str]:
        host_name = launch.pod[: bundles.LONGEST_HOST_NAME].rstrip("-.")
        made = namespaces.made(self._namespaces / launch.uid, host_name=host_name)
        return {kind: path for kind, path in made.items() if kind != "ipc" or not launch.host_ipc}

    def _write(self, launch: Launch, image: Image, bundle: Path, shared: Mapping[str, str]) -> None:
        """Write a bundle; its configuration comes last, so a bundle with one is complete."""
        user = users.find(image.root, image.config.user, user=launch.user, group=launch.group)
        if launch.security.not_root and user.uid == 0:
            raise LaunchError("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")
        if not self._trusted and (why := _reach(launch, user)):
            raise LaunchError(
                "CreateContainerConfigError",
                f"{why} is refused: it reaches the machine as {'root' if user.uid == 0 else f'its user {user.uid}'}; "
                "leave it out, run as another user (securityContext.runAsUser), or have an administrator start the "
                "worker with --allow-root",
            )
        shm = namespaces.shared_memory(None if launch.host_ipc else self._namespaces / launch.uid)
        files = [shm, *(Mount(source=one, target=one, read_only=True) for one in _SHARED if Path(one).exists())]
        sources = [
            Mount(source=one.target, target=own.target, read_only=own.read_only)
            for one, own in zip(_sources(launch, bundle), launch.mounts, strict=True)
        ]
        bound = msgspec.structs.replace(launch, mounts=sources)
        config = bundles.config(bound, image.config, user, namespaces=shared, files=files)
        programs.check(
            image.root,
            config["process"]["args"][0],
            path=bundles.environment(launch, image.config)["PATH"],
            cwd=config["process"]["cwd"],
            mounts=launch.mounts,
        )
        shutil.rmtree(bundle, ignore_errors=True)
        bundle.mkdir(mode=0o700, parents=True)
        (bundle / engines.LOWER).symlink_to(image.root)
        draft = bundle / f"{engines.CONFIG}.draft"
        draft.write_text(json.dumps(config))
        draft.rename(bundle / engines.CONFIG)

    def _outer(self, launch: Launch, bundle: Path) -> Launch:
        """The engine as the shim starts it: a process of the machine, with the container's limits."""
        limits = launch.limits
        if limits.pids is not None:
            limits = msgspec.structs.replace(limits, pids=limits.pids + _ENGINE_PIDS)
        return msgspec.structs.replace(
            launch,
            command=self._engine.run(bundle, launch.id),
            args=(),
            env=_OUTER_ENVIRONMENT,
            working_dir="/",
            user=None,
            group=None,
            groups=(),
            mounts=_sources(launch, bundle),
            limits=limits,
        )

    def _inside(self, launch: Launch, command: Sequence[str], *, tty: bool, pid_file: str = "") -> Inside:
        place = self._check_runs(launch)
        process = self._process(launch.id, command, tty=tty)
        argv = self._engine.execute(launch.id, process, cgroups=place.cgroups, pid_file=pid_file)
        return Inside(argv=argv, env=_OUTER_ENVIRONMENT, cwd="/")

    def _check_runs(self, launch: Launch) -> Place:
        place = self.places().get(launch.id)
        if place is None or not (self._bundles / launch.id).exists():
            raise LaunchError("ContainerNotRunning", f'container "{launch.container}" does not run')
        return place

    def _process(self, run: str, command: Sequence[str], *, tty: bool) -> Path:
        """The file that describes a command as a process of the container; equal commands share it."""
        bundle = self._bundles / run
        own = json.loads((bundle / engines.CONFIG).read_bytes())["process"]
        text = json.dumps({**own, "args": list(command), "terminal": tty})
        path = bundle / f"command-{zlib.crc32(text.encode()):08x}.json"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        return path

    async def _remove(self, run: str) -> None:
        """Remove the files of a run that has ended."""
        bundle = self._bundles / run
        if bundle.exists():
            await asyncio.to_thread(shutil.rmtree, bundle, ignore_errors=True)
            self._engine.forget(run)


def _sources(launch: Launch, bundle: Path) -> list[Mount]:
    """Mounts that the shim makes for a container's volumes, in the engine's mount namespace only."""
    return [
        msgspec.structs.replace(one, target=str(bundle / _SOURCES / str(number)), read_only=False, as_user=False)
        for number, one in enumerate(launch.mounts)
    ]


def _reach(launch: Launch, user: users.User) -> str:
    """The field by which a container accesses the machine as one of its users; empty if none."""
    if launch.security.privileged:
        return "privileged"
    if more := bundles.unusual(launch.security.add):
        return f"capabilities.add: {', '.join(more)}"
    return launch.host_access if identities.is_somebody(user.uid) else ""


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
