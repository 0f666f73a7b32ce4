"""What every runtime does: starts, sees ends, stops with all that was started, keeps output, is found again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from tests.worker.runtimes.bench import UID, Bench, build_root, lives, needs_containers, needs_groups, opened, until

from rota.worker.runtimes import sessions
from rota.worker.runtimes.runtime_interface import CONTAINER, PROCESS, LaunchError, Limits, Mount

pytestmark = pytest.mark.slow
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("image") / "root")


@pytest.fixture(params=[PROCESS, pytest.param(CONTAINER, marks=needs_containers)])
async def bench(request: pytest.FixtureRequest, tmp_path: Path, image: str) -> AsyncIterator[Bench]:
    if request.param == CONTAINER and not Path(image).exists():
        build_root(Path(image))
    async with opened(tmp_path, runtime=request.param, image=image) as made:
        yield made


async def test_it_runs_with_its_environment_and_its_output_is_kept(bench: Bench) -> None:
    run = await bench.start("sh", "-c", 'echo "hello $WHO"; echo oops >&2; exit 3', env={"WHO": "world"})
    ended = await bench.exit()
    assert (ended.id, ended.code, ended.signal, ended.oom) == (run, 3, 0, False)
    assert sorted((await bench.log()).splitlines()) == [b"hello world", b"oops"]
    await bench.runtime.forget(run)


async def test_a_command_that_is_not_there_is_an_error_that_names_it(bench: Bench) -> None:
    with pytest.raises(LaunchError) as refused:
        await bench.start("/no/such/program")
    assert refused.value.reason == "RunContainerError"
    assert refused.value.message.startswith('exec: "/no/such/program": no such file or directory')
    assert not bench.runtime.places()


async def test_what_could_not_be_started_can_be_started_when_that_is_mended(bench: Bench) -> None:
    with pytest.raises(LaunchError):
        await bench.start("/no/such/program")
    await bench.start("sh", "-c", "exit 6")
    assert (await bench.exit()).code == 6


async def test_the_same_start_again_starts_nothing(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    volume = Mount(source=str(tmp_path / "shared"), target=str(tmp_path / "shared"))
    command = ("sh", "-c", f"echo x >> {tmp_path}/shared/marks; sleep 0.2")
    for _ in range(3):
        await bench.start(*command, mounts=(volume,))
    await bench.exit()
    await bench.start(*command, mounts=(volume,))
    assert (tmp_path / "shared" / "marks").read_text() == "x\n"


async def test_what_is_asked_to_end_may_end_by_itself(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    await bench.says(b"up")
    await bench.runtime.stop(run, 10)
    assert (await bench.exit()).code == 0
    assert await bench.log() == b"up\nbye\n"


async def test_what_does_not_end_is_ended_when_its_grace_is_over(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    await bench.says(b"up")
    await bench.runtime.stop(run, 0.3)
    ended = await bench.exit()
    assert (ended.code, ended.signal) == (137, 9)


async def test_nothing_that_a_container_started_outlives_it(bench: Bench) -> None:
    marker = f"600.{os.getpid()}"
    await bench.start("sh", "-c", f"setsid sleep {marker} & exec sleep 0.2")
    assert (await bench.exit()).code == 0

    await until(lambda: not lives("sleep", marker))


@needs_groups
async def test_a_container_above_its_memory_limit_is_reported_as_oom_killed(bench: Bench) -> None:
    # A shell that doubles a word until it has no more room.
    script = "x=0123456789; while :; do x=$x$x; done"
    await bench.start("sh", "-c", script, limits=Limits(memory_bytes=32 * MEGABYTE))
    ended = await bench.exit()
    assert (ended.oom, ended.code) == (True, 137)


@needs_groups
async def test_a_container_cannot_have_more_processes_than_it_may(bench: Bench) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done; wait"
    await bench.start("sh", "-c", script, limits=Limits(pids=4))
    assert (await bench.exit()).code != 0
    assert b"fork" in (await bench.log()).lower()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_container_can_run_as_another_user(bench: Bench) -> None:
    await bench.start("sh", "-c", "id -u; id -g; id -G", user=65533, group=65532, groups=(7, 8), working_dir="/")
    await bench.exit()
    first, second, third = (await bench.log()).split(b"\n", 2)
    assert (first, second) == (b"65533", b"65532")
    assert {b"7", b"8"} <= set(third.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have other groups")
@pytest.mark.parametrize("mounted", [False, True])
async def test_root_may_have_other_groups(bench: Bench, tmp_path: Path, mounted: bool) -> None:
    mounts = (Mount(source=str(tmp_path), target=str(tmp_path)),) if mounted else ()
    await bench.start("sh", "-c", "id -u; id -g; id -G", group=65532, groups=(7, 8), mounts=mounts)
    assert (await bench.exit()).code == 0
    first, second, third = (await bench.log()).split(b"\n", 2)
    assert (first, second) == (b"0", b"65532")
    assert {b"7", b"8"} <= set(third.split())


async def test_output_is_kept_as_it_was_written(bench: Bench) -> None:
    await bench.start("printf", "one\ntwo\nthree")
    await bench.exit()
    assert await bench.log() == b"one\ntwo\nthree"
    assert await bench.log(tail_lines=1) == b"three"
    assert await bench.log(tail_lines=2) == b"two\nthree"
    assert len((await bench.log(timestamps=True)).splitlines()) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_volumes_are_where_the_container_expects_them(bench: Bench, tmp_path: Path) -> None:
    source, written = tmp_path / "source", tmp_path / "written"
    for folder in (source, written):
        folder.mkdir()
    written.chmod(0o777)
    (source / "file").write_text("content")
    inner = Path("/tmp") / f"rota-test-{os.getpid()}"
    mounts = (
        Mount(source=str(source), target=f"{inner}/deep", read_only=True),
        Mount(source=str(source / "file"), target=f"{inner}/one"),
        Mount(source=str(written), target=f"{inner}/out"),
    )
    script = "cat deep/file one; touch deep/x 2>/dev/null || echo refused; id -u > out/who; pwd"
    try:
        await bench.start("sh", "-c", script, mounts=mounts, user=65534, group=65534, working_dir=str(inner))
        assert (await bench.exit()).code == 0
    finally:
        _remove_empty(inner)
    said = await bench.log()
    assert b"contentcontentrefused" in said
    assert said.endswith(str(inner).encode() + b"\n"), "its folder may be in a volume"
    assert (written / "who").read_text() == "65534\n"


def _remove_empty(folder: Path) -> None:
    """What a process's mounts leave behind: empty folders, and an empty file."""
    for one in folder.glob("*"):
        one.rmdir() if one.is_dir() else one.unlink()
    if folder.exists():
        folder.rmdir()


async def test_a_command_can_be_run_in_it(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    volume = Mount(source=str(tmp_path / "v"), target=str(tmp_path / "v"))
    launch = bench.launch(
        "sh", "-c", "echo up > up; sleep 60", env={"WHO": "me"}, mounts=(volume,), working_dir=str(tmp_path / "v")
    )
    await bench.runtime.start(launch)
    await until((tmp_path / "v" / "up").exists)
    assert await bench.runtime.execute(launch, ["sh", "-c", "cat up; echo $WHO; exit 4"]) == (4, b"up\nme\n")


async def test_a_command_that_takes_too_long_is_ended(bench: Bench) -> None:
    launch = bench.launch("sleep", "60")
    await bench.runtime.start(launch)
    marker = f"601.{os.getpid()}"
    asking = asyncio.create_task(bench.runtime.execute(launch, ["sleep", marker]))
    await until(lambda: lives("sleep", marker))
    asking.cancel()
    await asyncio.wait([asking])
    await until(lambda: not lives("sleep", marker))


@needs_groups
async def test_commands_are_held_to_the_limits_of_the_container(bench: Bench) -> None:
    launch = bench.launch("sleep", "60", limits=Limits(memory_bytes=32 * MEGABYTE))
    await bench.runtime.start(launch)
    code, _ = await bench.runtime.execute(launch, ["sh", "-c", "x=0123456789; while :; do x=$x$x; done"])
    assert code in {137, -9}


async def test_commands_fail_in_a_container_that_does_not_run(bench: Bench) -> None:
    launch = bench.launch("true")
    with pytest.raises(LaunchError, match="does not run"):
        bench.runtime.inside(launch, ["true"])


class Door:
    """Something that a run waits for: a file in a volume."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "door"
        self._folder.mkdir()
        self.mounts = (Mount(source=str(self._folder), target=str(self._folder)),)
        self.wait = f"while [ ! -e {self._folder}/open ]; do sleep 0.05; done"

    def open(self) -> None:
        (self._folder / "open").touch()


@pytest.fixture
def door(tmp_path: Path) -> Door:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    return Door(tmp_path)


async def test_what_runs_goes_on_while_the_agent_is_away(bench: Bench, door: Door) -> None:
    run = await bench.start("sh", "-c", f"echo one; {door.wait}; echo two; exit 5", mounts=door.mounts)
    other = await bench.start("sh", "-c", "exit 7", container="d")
    assert (await bench.exit()).id == other
    await bench.reopen()
    assert bench.known[run].exit is None
    ended = bench.known[other].exit
    assert ended is not None
    assert ended.code == 7
    door.open()
    assert (await bench.exit()).code == 5
    assert await bench.log() == b"one\ntwo\n"
    for one in (other, run):
        await bench.runtime.forget(one)
    await bench.reopen()
    assert bench.known == {}


async def test_what_ended_while_the_agent_was_away_is_remembered_with_its_code(bench: Bench, door: Door) -> None:
    run = await bench.start("sh", "-c", f"{door.wait}; exit 9", mounts=door.mounts)
    process = Path(f"/proc/{bench.runtime.places()[run].pid}")
    await bench.runtime.close()
    door.open()
    await until(lambda: not process.exists())
    await bench.reopen()
    ended = bench.known[run].exit
    assert ended is not None
    assert ended.code == 9


async def test_what_is_found_again_can_be_asked_and_ended(bench: Bench) -> None:
    launch = bench.launch("sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done")
    await bench.runtime.start(launch)
    await bench.says(b"up")
    await bench.reopen()
    assert await bench.runtime.execute(launch, ["echo", "there"]) == (0, b"there\n")
    await bench.runtime.stop(launch.id, 10)
    assert (await bench.exit()).code == 9


async def test_runs_of_a_killed_shim_are_watched_and_their_exit_code_is_unknown(bench: Bench, door: Door) -> None:
    run = await bench.start("sh", "-c", door.wait, mounts=door.mounts)
    _kill_shim(bench, run)
    await bench.reopen()
    assert bench.known[run].exit is None
    door.open()
    ended = await bench.exit()
    assert (ended.id, ended.code) == (run, 137)
    assert ended.lost, "nobody saw how"


async def test_what_dies_with_its_machine_is_lost_also_if_its_end_was_seen(bench: Bench) -> None:
    run = await bench.start("sleep", "600")
    shim_process = _shim_process(bench, run)
    os.kill(bench.runtime.places()[run].pid, signal.SIGKILL)
    await until(lambda: run not in bench.runtime.places())  # it was seen, and written down
    os.kill(shim_process, signal.SIGKILL)
    await bench.runtime.lost()
    await bench.reopen()
    found = bench.known[run].exit
    assert found is not None
    assert found.lost
    assert not bench.exits.qsize(), "nobody was told of a failure meanwhile"


async def test_what_is_killed_while_its_machine_lives_has_failed(bench: Bench) -> None:
    run = await bench.start("sleep", "600")
    os.kill(bench.runtime.places()[run].pid, signal.SIGKILL)
    ended = await bench.exit()
    assert (ended.id, ended.code, ended.lost) == (run, 137, False)
    await bench.reopen()
    found = bench.known[run].exit
    assert found is not None
    assert not found.lost


async def test_a_run_that_was_stopped_is_not_lost(bench: Bench) -> None:
    run = await bench.start("sleep", "600")
    shim_process = _shim_process(bench, run)
    await bench.runtime.stop(run, 0)
    assert (await bench.exit()).id == run
    os.kill(shim_process, signal.SIGKILL)
    await bench.runtime.lost()
    await bench.reopen()
    found = bench.known[run].exit
    assert found is not None
    assert not found.lost


async def test_runs_of_a_killed_shim_can_still_be_stopped(bench: Bench) -> None:
    run = await bench.start("sleep", "600")
    _kill_shim(bench, run)
    await bench.runtime.lost()
    await bench.reopen()
    await bench.runtime.stop(run, 0)
    assert (await bench.exit()).id == run


def _kill_shim(bench: Bench, run: str) -> None:
    os.kill(_shim_process(bench, run), signal.SIGKILL)


def _shim_process(bench: Bench, run: str) -> int:
    status = Path(f"/proc/{bench.runtime.places()[run].pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))


async def test_what_is_cleaned_up_is_gone(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "echo x > file; echo done")
    await bench.exit()
    await bench.runtime.clean_up(UID, logs=False)
    assert await bench.log() == b"done\n"
    await bench.runtime.forget(run)
    await bench.runtime.clean_up(UID, logs=True)
    with pytest.raises(FileNotFoundError):
        await bench.log()
    left = [one for one in bench.folder.rglob("*") if UID in one.name]
    assert left == []


async def test_what_runs_can_be_measured(bench: Bench) -> None:
    run = await bench.start("sleep", "60")
    place = bench.runtime.places()[run]
    assert Path(f"/proc/{place.pid}").exists()
    await bench.runtime.stop(run, 0)
    await bench.exit()
    assert run not in bench.runtime.places()


async def test_an_attached_client_writes_input_even_after_an_agent_restart(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "read x; echo got $x; cat; echo over", stdin=True)
    await bench.reopen()
    session = sessions.attached(await bench.runtime.attach(run), end_input=partial(bench.runtime.end_input, run))
    await session.write(b"one\ntwo\n")
    await bench.says(b"two\n")
    await session.close()
    assert (await bench.exit()).code == 0
    assert await bench.log() == b"got one\ntwo\nover\n"


async def test_a_terminal_is_one_for_everything_that_runs_there(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "trap 'echo caught' INT; echo begun; read x; tty -s; echo $?", tty=True)
    await bench.says(b"begun\r\n")
    session = sessions.attached(await bench.runtime.attach(run), end_input=None)
    assert await session.read() == b"begun\r\n", "the first who looks sees what was there before"
    await session.write(b"\x03")
    await bench.says(b"caught\r\n")
    await session.write(b"\n")
    assert (await bench.exit()).code == 0
    assert b"0\r\n" in await bench.log()
    await session.close()


async def test_attach_fails_after_the_end(bench: Bench) -> None:
    run = await bench.start("true", stdin=True)
    await bench.exit()
    with pytest.raises(LaunchError, match="does not run"):
        await bench.runtime.attach(run)


async def test_a_slow_reader_does_not_block_the_run(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "read x; yes | head -c 3000000; echo over", stdin=True)
    session = sessions.attached(await bench.runtime.attach(run), end_input=None)
    await session.write(b"\n")
    assert (await bench.exit()).code == 0
    assert (await bench.log(tail_lines=1)) == b"over\n"
    await session.close()
