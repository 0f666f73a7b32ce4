"""Containers in root file systems that the tests build."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.worker.runtimes.bench import UID, Bench, build_root, lives, needs_containers, opened, until
from tests.worker.runtimes.images import write_layout

from rota.worker.runtimes import sessions
from rota.worker.runtimes.container import engines
from rota.worker.runtimes.container.podman import Podman
from rota.worker.runtimes.process.cgroups import ControlGroups
from rota.worker.runtimes.runtime_interface import CONTAINER, PROCESS, LaunchError, Mount, Security

pytestmark = [pytest.mark.slow, needs_containers]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_root(tmp_path_factory.mktemp("image") / "root")


@pytest.fixture
async def bench(tmp_path: Path, root: Path) -> AsyncIterator[Bench]:
    async with opened(tmp_path, runtime=CONTAINER, image=f"file://{root}") as made:
        yield made


async def _said(bench: Bench, script: str, **fields: object) -> list[str]:
    await bench.start("sh", "-c", script, **fields)
    ended = await bench.exit()
    said = (await bench.log()).decode().splitlines()
    assert ended.code == 0, said
    return said


async def test_a_container_sees_its_image_and_no_other_processes(bench: Bench) -> None:
    said = await _said(bench, "cat /mark; ls /; echo $$; ls /proc | grep -c '^[0-9]'; hostname")
    assert said[0] == "of the image"
    assert "work" not in said
    assert said[-3] == "1", "it is the first process"
    assert int(said[-2]) < 6
    assert said[-1] == "p"


async def test_what_a_container_writes_is_its_own_and_goes_with_it(bench: Bench, root: Path) -> None:
    assert await _said(bench, "echo mine > /mark; rm /bin/vi; touch /new; cat /mark; ls /new") == ["mine", "/new"]
    assert (root / "mark").read_text() == "of the image\n"
    assert (root / "bin" / "vi").is_symlink()
    assert not (root / "new").exists()
    assert not (root / "proc").exists(), "not even places to mount on"
    await bench.start("cat", "/mark", run=1)
    await bench.exit()
    assert await bench.log(run=1) == b"of the image\n"


async def test_a_root_file_system_can_be_closed_but_for_volumes(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    said = await _said(
        bench,
        "touch /x || echo closed; touch /data/x && echo open; touch /dev/shm/y && echo memory",
        security=Security(read_only_root=True),
        mounts=(Mount(source=str(tmp_path / "data"), target="/data"),),
    )
    assert said[1:] == ["closed", "open", "memory"] or said[:-1] == ["closed", "open", "memory"]
    assert (tmp_path / "data" / "x").exists()


async def test_containers_of_a_pod_share_messages_and_memory_and_the_machines_network(bench: Bench) -> None:
    links = "for i in ipc uts net; do readlink /proc/self/ns/$i; done"
    await bench.start("sh", "-c", f"{links}; echo hello > /dev/shm/letter; sleep 60", container="a")
    await bench.says(b"net:", container="a")
    await bench.start("sh", "-c", f"{links}; while ! cat /dev/shm/letter; do sleep 0.05; done", container="b")
    assert (await bench.exit()).code == 0
    first = (await bench.log("a")).split()
    second = (await bench.log("b")).split()
    assert first[:3] == [one for one in second if one.startswith((b"ipc:", b"uts:", b"net:"))]
    assert b"hello" in second
    machine = [os.readlink(f"/proc/self/ns/{kind}").encode() for kind in ("ipc", "uts", "net")]  # noqa: PTH115
    assert first[0] != machine[0]
    assert first[1] != machine[1]
    assert first[2] == machine[2]


async def test_a_container_may_share_messages_and_memory_with_the_machine(bench: Bench) -> None:
    said = await _said(bench, "readlink /proc/self/ns/ipc", host_ipc=True)
    assert said == [str(Path("/proc/self/ns/ipc").readlink())]


async def test_containers_of_a_pod_may_start_at_the_same_time(bench: Bench) -> None:
    names = ["a", "b", "c", "d"]
    await asyncio.gather(*(bench.start("readlink", "/proc/self/ns/ipc", container=one) for one in names))
    assert {(await bench.exit()).code for _ in names} == {0}
    assert len({await bench.log(one) for one in names}) == 1


async def test_without_control_groups_all_of_a_container_is_ended_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlGroups, "available", False)
    marker = f"602.{os.getpid()}"
    run = await bench.start("sh", "-c", f"sleep {marker} & echo up; wait")
    await bench.says(b"up")
    await bench.runtime.stop(run, 0)
    assert (await bench.exit()).code == 137
    await until(lambda: not lives("sleep", marker))


async def test_root_in_a_container_is_not_root_of_the_machine(bench: Bench) -> None:
    said = await _said(bench, "mount -t tmpfs x /tmp 2>/dev/null || echo no-mount; mknod /dev/sda b 8 0 || echo no-dev")
    assert {"no-mount", "no-dev"} <= set(said)
    await bench.start("sh", "-c", "chown 5 /mark || echo no-chown", run=1, security=Security(drop=("ALL",)))
    await bench.exit()
    assert b"no-chown" in await bench.log(run=1)


async def test_users_may_have_names_which_the_image_knows(bench: Bench, tmp_path: Path, root: Path) -> None:
    write_layout(tmp_path / "layout", [root], {"User": "web", "Cmd": ["sh", "-c", "id; sleep 60"]})
    launch = bench.launch(image=f"oci:{tmp_path}/layout")
    await bench.runtime.start(launch)
    await bench.says(b"7001")
    assert await bench.log() == b"uid=7001(web) gid=7002(web) groups=7003(extra)\n"
    assert await bench.runtime.execute(launch, ["id", "-u"]) == (0, b"7001\n")
    strict = bench.launch("true", container="d", security=Security(not_root=True))
    with pytest.raises(LaunchError, match="image will run as root"):
        await bench.runtime.start(strict)


async def test_what_the_pod_leaves_open_is_the_images(bench: Bench, tmp_path: Path, root: Path) -> None:
    settings = {
        "Entrypoint": ["echo", "entry"],
        "Cmd": ["and", "cmd"],
        "Env": ["A=image", "B=image", "PATH=/bin"],
        "WorkingDir": "/srv/app",
    }
    image = f"oci:{write_layout(tmp_path / 'layout', [root], settings)}"
    for number, (command, args, wanted) in enumerate(
        [
            ((), (), "entry and cmd"),
            ((), ("mine",), "entry mine"),
            (("sh", "-c", "echo $A $B; pwd"), (), "pod image\n/srv/app"),
        ]
    ):
        await bench.start(*command, args=args, image=image, run=number, env={"A": "pod"})
        await bench.exit()
        assert (await bench.log(run=number)).decode().strip() == wanted


async def test_an_image_may_want_another_signal_to_end(bench: Bench, tmp_path: Path, root: Path) -> None:
    image = f"oci:{write_layout(tmp_path / 'layout', [root], {'StopSignal': 'SIGUSR1'})}"
    script = "trap 'exit 11' USR1; trap 'exit 12' TERM; echo up; while :; do sleep 0.05; done"
    run = await bench.start("sh", "-c", script, image=image)
    await bench.says(b"up")
    await bench.runtime.stop(run, 10)
    assert (await bench.exit()).code == 11


async def test_an_image_without_a_command_needs_one(bench: Bench) -> None:
    with pytest.raises(LaunchError, match="no command specified"):
        await bench.start()


async def test_an_image_that_is_nowhere_is_said_with_what_to_do(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(Podman, "find", nothing)
    with pytest.raises(LaunchError) as refused:
        await bench.start("true", image="registry.example/app:1")
    assert refused.value.reason == "ErrImagePull"
    assert "install podman" in refused.value.message
    with pytest.raises(LaunchError, match="there is no /no/such/folder on this node"):
        await bench.start("true", image="/no/such/folder")
    for relative in ("file://some/folder", "oci:some/folder"):
        with pytest.raises(LaunchError, match="must begin with a slash"):
            await bench.start("true", image=relative)
    with pytest.raises(LaunchError) as never:
        await bench.start("true", image="registry.example/app:1", pull_policy="Never")
    assert never.value.reason == "ErrImageNeverPull"


async def test_images_lie_in_a_folder_under_their_names(bench: Bench, root: Path) -> None:
    images = bench.folder.parent / "images"
    (images / "team").mkdir(parents=True)
    (images / "team" / "app:1").symlink_to(root)
    (images / "plain").symlink_to(root)
    for number, name in enumerate(["team/app:1", "plain:latest", "docker.io/library/plain"]):
        await bench.start("cat", "/mark", image=name, run=number)
        assert (await bench.exit()).code == 0


async def test_what_the_engine_cannot_set_up_is_an_error_of_the_start(bench: Bench, tmp_path: Path) -> None:
    missing = Mount(source=str(tmp_path / "missing"), target="/data")
    with pytest.raises(LaunchError) as refused:
        await bench.start("true", mounts=(missing,))
    assert refused.value.reason == "RunContainerError"
    assert "missing" in refused.value.message
    assert bench.exits.empty(), "what never ran has not ended"
    (tmp_path / "missing").mkdir()
    await bench.start("true", mounts=(missing,))
    assert (await bench.exit()).code == 0


async def test_what_fails_before_the_engine_is_said_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_LAYERS", ("echo no room for layers >&2; exit 1",))
    with pytest.raises(LaunchError) as refused:
        await bench.start("true")
    assert refused.value.message == "the container could not be set up: no room for layers"


async def test_a_start_goes_on_after_its_caller_was_cancelled(bench: Bench) -> None:
    launch = bench.launch("sh", "-c", "sleep 0.3; cat /mark; echo written > /x; cat /x")
    starting = asyncio.create_task(bench.runtime.start(launch))
    await until(lambda: launch.id in bench.runtime.places())
    starting.cancel()
    await asyncio.wait([starting])
    await bench.reopen()
    if bench.known[launch.id].exit is None:
        assert (await bench.exit()).code == 0
    assert await bench.log() == b"of the image\nwritten\n"


async def test_what_has_ended_is_not_started_again(bench: Bench) -> None:
    run = await bench.start("echo", "once")
    await bench.exit()
    await until(lambda: not (bench.folder / "bundles" / run).exists())
    async with asyncio.timeout(60):
        await bench.start("echo", "twice")
    await bench.reopen()
    async with asyncio.timeout(60):
        await bench.start("echo", "thrice")
    assert await bench.log() == b"once\n"
    assert bench.exits.empty()


async def test_nothing_stays_of_a_container_that_has_ended(bench: Bench) -> None:
    run = await bench.start("sleep", "600")

    def mounted() -> int:
        return Path("/proc/self/mountinfo").read_text().count(f" {bench.folder}/")

    assert mounted() == 3, "what the pod shares, and no root file system"
    await bench.runtime.stop(run, 0)
    await bench.exit()
    await bench.runtime.forget(run)
    await bench.runtime.clean_up(UID, logs=True)
    assert mounted() == 0
    assert [one for one in bench.folder.rglob("*") if UID in one.name] == []


async def test_a_node_runs_both_kinds(bench: Bench) -> None:
    await bench.start("cat", "/mark", container="a")
    await bench.start("sh", "-c", "test ! -e /mark", container="b", runtime=PROCESS, env={"PATH": os.environ["PATH"]})
    assert {(await bench.exit()).code, (await bench.exit()).code} == {0}


async def test_a_session_can_have_a_terminal(bench: Bench) -> None:
    launch = bench.launch("sleep", "60")
    await bench.runtime.start(launch)
    how = bench.runtime.inside(launch, ["sh", "-c", "tty; stty size; read x; cat /mark; exit 5"], tty=True)
    session = await sessions.begin(how, tty=True, stdin=True)
    said = b""
    try:
        async with asyncio.timeout(60):
            session.resize(columns=91, rows=23)
            while b"/dev/" not in said:
                said += await session.read()
            await session.write(b"go\n")
            while piece := await session.read():
                said += piece
            assert await session.wait() == 5
    finally:
        await session.close()
    assert b"/dev/pts/0" in said, "a terminal of the container's own"
    assert b"of the image" in said
