"""Containers as real processes: what only they need, beside what every runtime does."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.worker.runtimes.bench import Bench, lives, needs_groups, opened, until

from rota.worker.runtimes import sessions
from rota.worker.runtimes.process.cgroups import ControlGroups
from rota.worker.runtimes.runtime_interface import PROCESS, LaunchError, Limits, Mount

pytestmark = pytest.mark.slow


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path, runtime=PROCESS, image="none") as made:
        yield made


async def test_a_container_that_leaves_a_chatterbox_behind_does_not_stop_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without control groups, in a session of its own: nothing holds it but that it becomes the shim's child.
    monkeypatch.setattr(ControlGroups, "available", False)
    await bench.start("sh", "-c", "setsid yes & sleep 0.2; exit 0")
    assert (await bench.exit()).code == 0
    await bench.start("true", container="d")
    assert (await bench.exit()).code == 0


async def test_what_a_container_leaves_behind_is_ended_with_it_and_with_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlGroups, "available", False)
    left, other = f"602.{os.getpid()}", f"603.{os.getpid()}"
    await bench.start("sh", "-c", f"setsid sleep {other} & sleep 0.1; echo up; exec sleep 60", container="other")
    # an orphan by now: the shell that started it has become another program, so let one go that has ended
    await bench.says(b"up", container="other")
    await bench.start("sh", "-c", f"(setsid sleep {other}5 &) ; echo up; exec sleep 60", container="third")
    await bench.says(b"up", container="third")
    await bench.start("sh", "-c", f"(setsid sleep {left} &) ; sleep 0.2; exit 0")
    assert (await bench.exit()).code == 0
    await until(lambda: not lives("sleep", left))
    assert lives("sleep", other)
    assert lives("sleep", f"{other}5")
    await bench.runtime.stop("uid-1.third.0", 0)
    await until(lambda: not lives("sleep", f"{other}5"))
    assert lives("sleep", other)


@needs_groups
async def test_the_shim_is_not_charged_to_a_containers_limits(bench: Bench) -> None:
    # less than a process needs to begin: it is the container that has too little, not what starts containers
    with contextlib.suppress(LaunchError):
        await bench.start("true", limits=Limits(memory_bytes=4096))
        await bench.exit()
    await bench.start("true", container="d")
    assert (await bench.exit()).code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_a_link_that_takes_the_place_of_a_folder_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    """Between the moment when a path is looked at and the one when it is mounted."""
    volume, secret = tmp_path / "volume", tmp_path / "secret"
    for folder in (volume / "a" / "b", secret / "b"):
        folder.mkdir(parents=True)
    (secret / "b" / "key").write_text("x")
    mount = Mount(source=str(volume), inside="a/b", target=str(tmp_path / "here"))
    await bench.start("ls", str(tmp_path / "here"), mounts=(mount,))
    assert (await bench.exit()).code == 0
    (volume / "a").rename(volume / "was")
    (volume / "a").symlink_to(secret)
    with pytest.raises(LaunchError, match="through a link"):
        await bench.start("ls", str(tmp_path / "here"), run=1, mounts=(mount,))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_a_name_with_blanks_and_quotes_is_a_name(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    target = tmp_path / "a b" / "$(touch c) 'd" / "e"
    mount = Mount(source=str(tmp_path / "file"), target=str(target))
    await bench.start("cat", str(target), mounts=(mount,))
    assert (await bench.exit()).code == 0
    assert await bench.log() == b"x"
    assert not (tmp_path / "a").exists()


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
    assert await bench.log() == b"y" * 100_000 + b"\nend"
    stamped = (await bench.log(timestamps=True)).splitlines()
    assert len(stamped) == 2
    assert stamped[1].endswith(b"Z end")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_others_reach_their_home_in_a_folder_that_is_closed_to_them(bench: Bench) -> None:
    home = bench.runtime.home("uid-1")
    (bench.folder / "secret").write_text("x")
    bench.folder.chmod(0o700)
    script = 'echo mine > "$HOME/file" && pwd && cat "$HOME/file"; ls "$0"'
    env = {"HOME": str(home)}
    launch = bench.launch("sh", "-c", f"{script}; sleep 60", str(bench.folder), user=65534, group=65534, env=env)
    await bench.runtime.start(launch)
    await bench.says(b"homes\n")
    assert await bench.log() == f"{home}\nmine\nhomes\n".encode(), "and nothing else of it"
    assert (home / "file").stat().st_uid == 65534
    assert await bench.runtime.execute(launch, ["sh", "-c", "pwd; id -u"]) == (0, f"{home}\n65534\n".encode())


async def test_closed_readers_leave_no_open_pipe_even_without_output(bench: Bench) -> None:
    run = await bench.start("sh", "-c", "echo $PPID; exec sleep 60", stdin=True)
    await bench.says(b"\n")
    files = Path(f"/proc/{int(await bench.log())}/fd")
    before = len(list(files.iterdir()))
    for _ in range(20):
        await sessions.attached(await bench.runtime.attach(run), end_input=None).close()
    # those of the last one are closed with the next one, or with the next word
    await until(lambda: len(list(files.iterdir())) <= before + 2)


async def test_attach_fails_if_no_shim_answers(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="does not answer"):
        await Bench(tmp_path, runtime=PROCESS, image="none").runtime.attach("uid-1.c.0")


async def test_bytes_that_are_no_text_pass_through(bench: Bench) -> None:
    odd = b"\xff".decode("utf-8", "surrogateescape")
    await bench.start("sh", "-c", 'printf %s "$ODD" | od -An -tx1', env={"PATH": os.environ["PATH"], "ODD": odd})
    await bench.exit()
    assert (await bench.log()).split() == [b"ff"]
    with pytest.raises(LaunchError) as refused:
        await bench.start(f"/no/such/{odd}", run=1)
    assert refused.value.reason == "RunContainerError"
