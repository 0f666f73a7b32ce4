"""Containers as real processes: started, seen to end, stopped with all that they started, and found again."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.kit import system
from rota.worker.runtimes.contract import Exit, Known, Launch, LaunchError, Limits, LogOptions, Mount
from rota.worker.runtimes.process.cgroups import ControlGroups
from rota.worker.runtimes.process.runtime import ProcessRuntime

pytestmark = pytest.mark.slow
PATIENCE_S = 20.0
needs_groups = pytest.mark.skipif(
    not ControlGroups("rota-test-probe").available, reason="this machine lets nobody make control groups"
)


class Bench:
    """A runtime and what it told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exits: asyncio.Queue[Exit] = asyncio.Queue()
        self.runtime = self._new()
        self.known: dict[str, Known] = {}

    def _new(self) -> ProcessRuntime:
        return ProcessRuntime(self.folder, node="test", clock=system.SystemClock())

    async def open(self) -> None:
        self.known = {one.id: one for one in await self.runtime.open(self.exits.put_nowait)}

    async def reopen(self) -> None:
        """The agent goes away and comes back."""
        await self.runtime.close()
        self.runtime = self._new()
        await self.open()

    async def start(self, *argv: str, container: str = "c", run: int = 0, **fields: Any) -> str:
        environment = {"PATH": os.environ["PATH"], **fields.pop("env", {})}
        launch = Launch(
            uid="uid-1", namespace="default", pod="p", container=container, run=run, image="i",
            command=argv, args=(), env=environment, **fields,
        )  # fmt: skip
        self.runtime.home("uid-1")
        await self.runtime.start(launch)
        return launch.id

    async def exit(self) -> Exit:
        async with asyncio.timeout(PATIENCE_S):
            return await self.exits.get()

    async def log(self, container: str = "c", run: int = 0, **options: Any) -> bytes:
        pieces = self.runtime.logs("uid-1", container, run, LogOptions(**options))
        async with asyncio.timeout(PATIENCE_S):
            return b"".join([piece async for piece in pieces])


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    # Deeper than an address of a socket can be long.
    made = Bench(tmp_path / ("deep" * 20) / ("folder" * 10) / "worker")
    await made.open()
    yield made
    for run in list(made.runtime._running):
        await made.runtime.stop(run, 0)
        await made.exit()
    await made.runtime._nurse.ask("end")
    await made.runtime.close()
    made.runtime._groups.close()


async def test_a_process_runs_with_its_environment_and_its_output_is_kept(bench: Bench) -> None:
    run = await bench.start("sh", "-c", 'echo "hello $WHO"; echo oops >&2; exit 3', env={"WHO": "world"})
    ended = await bench.exit()
    assert (ended.id, ended.code, ended.signal, ended.oom) == (run, 3, 0, False)
    lines = (await bench.log()).splitlines()
    assert sorted(lines) == [b"hello world", b"oops"]
    await bench.runtime.forget(run)


async def test_a_command_that_is_not_there_is_an_error_that_names_it(bench: Bench) -> None:
    with pytest.raises(LaunchError) as refused:
        await bench.start("/no/such/program")
    assert refused.value.reason == "RunContainerError"
    assert refused.value.message == 'exec: "/no/such/program": no such file or directory'


async def test_the_same_start_again_starts_nothing(bench: Bench, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    for _ in range(3):
        await bench.start("sh", "-c", f"echo x >> {marks}")
    await bench.exit()
    await bench.start("sh", "-c", f"echo x >> {marks}")
    assert marks.read_text() == "x\n"


async def test_what_is_asked_to_end_may_end_by_itself(bench: Bench) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    run = await bench.start("sh", "-c", script)
    async for piece in bench.runtime.logs("uid-1", "c", 0, LogOptions(follow=True)):
        assert piece == b"up\n"
        break
    await bench.runtime.stop(run, 10)
    assert (await bench.exit()).code == 0
    assert await bench.log() == b"up\nbye\n"


async def test_what_does_not_end_is_ended_when_its_grace_is_over(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    async for piece in bench.runtime.logs("uid-1", "c", 0, LogOptions(follow=True)):
        assert piece == b"up\n"
        break
    await bench.runtime.stop(run, 0.3)
    ended = await bench.exit()
    assert (ended.code, ended.signal) == (137, 9)


@needs_groups
async def test_nothing_that_a_container_started_outlives_it(bench: Bench, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    # A grandchild in a session of its own, which no process group holds.
    daemon = f"import os,time; os.setsid(); open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    script = f'{sys.executable} -c "{daemon}" & while [ ! -s {pid_file} ]; do sleep 0.02; done; exit 0'
    await bench.start("sh", "-c", script)
    assert (await bench.exit()).code == 0
    pid = int(pid_file.read_text())
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it still runs")


@needs_groups
async def test_a_container_that_wants_more_memory_than_it_may_have_is_told_so(bench: Bench) -> None:
    script = "x = bytearray(200 * 1024 * 1024); print(len(x))"
    await bench.start(sys.executable, "-c", script, limits=Limits(memory_bytes=64 * 1024 * 1024))
    ended = await bench.exit()
    assert (ended.oom, ended.signal) == (True, 9)


@needs_groups
async def test_a_container_cannot_have_more_processes_than_it_may(bench: Bench) -> None:
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; wait"
    await bench.start("sh", "-c", script, limits=Limits(pids=4))
    assert (await bench.exit()).code != 0
    assert b"fork" in (await bench.log()).lower()


async def test_a_container_can_be_somebody_else(bench: Bench) -> None:
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    await bench.start("id", "-u", user=65534, group=65534, working_dir="/")
    await bench.exit()
    assert await bench.log() == b"65534\n"


async def test_what_runs_goes_on_while_the_agent_is_away(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "echo one; sleep 1; echo two; exit 5")
    other = await bench.start("sh", "-c", "exit 7", container="d")
    assert (await bench.exit()).id == other
    await bench.reopen()
    assert bench.known[run].exit is None
    ended = bench.known[other].exit
    assert ended is not None
    assert ended.code == 7
    assert (await bench.exit()).code == 5
    assert await bench.log() == b"one\ntwo\n"
    await bench.runtime.forget(other)
    await bench.runtime.forget(run)
    await bench.reopen()
    assert bench.known == {}


async def test_what_ended_while_the_agent_was_away_is_remembered_with_its_code(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "sleep 0.3; exit 9")
    await bench.runtime.close()
    await asyncio.sleep(1)
    await bench.reopen()
    ended = bench.known[run].exit
    assert ended is not None
    assert ended.code == 9


async def test_what_a_killed_nursery_leaves_is_watched_and_its_end_is_unknown(bench: Bench) -> None:
    run = await bench.start("sleep", "2")
    await asyncio.sleep(0.1)
    listed = (await bench.runtime._nurse.ask("list"))["runs"]
    status = Path(f"/proc/{listed[0]['pid']}/status").read_text()
    parent = int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))
    os.kill(parent, signal.SIGKILL)
    await bench.reopen()
    assert bench.known[run].exit is None
    ended = await bench.exit()
    assert (ended.id, ended.code) == (run, 137)


async def test_what_a_killed_nursery_leaves_can_still_be_ended(bench: Bench) -> None:
    run = await bench.start("sleep", "600")
    record = (await bench.runtime._nurse.ask("list"))["runs"][0]
    status = Path(f"/proc/{record['pid']}/status").read_text()
    os.kill(int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))), signal.SIGKILL)
    await bench.runtime.lost()
    await bench.reopen()
    await bench.runtime.stop(run, 0)
    assert (await bench.exit()).id == run


async def test_a_container_that_leaves_a_chatterbox_behind_does_not_stop_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without control groups, in a session of its own: nothing holds it but that it becomes the nursery's child.
    monkeypatch.setattr(ControlGroups, "available", False)
    await bench.start("sh", "-c", "setsid yes & sleep 0.2; exit 0")
    assert (await bench.exit()).code == 0
    await bench.start("true", container="d")
    assert (await bench.exit()).code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_volumes_are_where_the_container_expects_them(bench: Bench, tmp_path: Path) -> None:
    # Not below pytest's own folder, which only its owner may enter.
    target = Path(tempfile.mkdtemp())
    target.chmod(0o755)
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("content")
    place = Mount(source=str(source), target=str(target / "deep"), read_only=True)
    script = f"cat {target}/deep/file; touch {target}/deep/x || echo refused; id -u"
    await bench.start("sh", "-c", script, mounts=(place,), user=65534, group=65534, working_dir="/")
    assert (await bench.exit()).code == 0
    said = await bench.log()
    assert b"content" in said
    assert b"refused" in said
    assert said.endswith(b"65534\n")
    assert not list((target / "deep").iterdir()), "the machine's own files stay as they are"
    shutil.rmtree(target)


async def test_long_logs_are_rotated_and_read_across_files(bench: Bench) -> None:
    line = "x" * 1000
    script = f"for i in range(25_000): print(i, {line!r})"
    await bench.start(sys.executable, "-c", script)
    await bench.exit()
    files = sorted((bench.folder / "logs" / "uid-1").iterdir())
    assert [one.name for one in files] == ["c.0.log", "c.0.log.1", "c.0.log.2"]
    whole = (await bench.log()).splitlines()
    assert [int(one.split()[0]) for one in whole] == list(range(25_000))
    assert [one.split()[0] for one in (await bench.log(tail_lines=2)).splitlines()] == [b"24998", b"24999"]
    assert len(await bench.log(limit_bytes=10)) == 10


async def test_very_long_lines_come_back_in_one_piece(bench: Bench) -> None:
    await bench.start(sys.executable, "-c", "print('y' * 100_000); print('end', end='')")
    await bench.exit()
    assert await bench.log() == b"y" * 100_000 + b"\nend\n"
    stamped = (await bench.log(timestamps=True)).splitlines()
    assert len(stamped) == 2
    assert stamped[1].endswith(b"Z end")


async def test_what_is_cleaned_up_is_gone(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "echo x > file; pwd")
    await bench.exit()
    home = Path((await bench.log()).decode().strip())
    assert (home / "file").exists()
    await bench.runtime.clean_up("uid-1", logs=False)
    assert not home.exists()
    assert await bench.log()
    await bench.runtime.clean_up("uid-1", logs=True)
    with pytest.raises(FileNotFoundError):
        await bench.log()
    await bench.runtime.forget(run)
