"""The programs for machines: files, locks, bundles, and a supervisor that starts a process again."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lifecycle.specs import parsed

from rota.kit import system
from rota.lifecycle import on_host, supervisor
from rota.lifecycle.on_host import Failed
from rota.lifecycle.reach import Reach
from rota.worker.runtimes.process import cgroups
from rota.worker.runtimes.process.runtime import ProcessRuntime

CLOCK = system.SystemClock()
UNIT = "rota-lab-w1.service"


def ask(home: Path, operation: str, payload: bytes = b"", **more: Any) -> Any:
    return on_host.answer({"op": operation, "home": str(home), **more}, io.BytesIO(payload))


def until(holds: Callable[[], bool]) -> None:
    deadline = CLOCK.monotonic() + 100
    while not holds():
        assert CLOCK.monotonic() < deadline
        CLOCK.block(0.02)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "lab" / "w1"
    ask(made, "prepare", cluster="lab", role="worker")
    return made


def service(script: str, digest: str = "1") -> dict[str, Any]:
    return {
        "service": {
            "unit": "rota-lab-w1.service",
            "command": [sys.executable, "-c", script],
            "digest": digest,
            "text": "",
        },
        "environment": {"NAME": 'a "b" \\c'},
        "release": "",
        "supervisor": Path(supervisor.__file__).read_text(),
    }


def test_a_member_is_placed_once_and_removed_without_a_trace(home: Path, tmp_path: Path) -> None:
    assert ask(home, "observe", server="")["cluster"] == "lab"
    ask(home, "prepare", cluster="lab", role="worker")
    with pytest.raises(Failed, match="belongs to the cluster lab"):
        ask(home, "prepare", cluster="other", role="worker")
    with pytest.raises(Failed, match="belongs to the cluster lab"):
        ask(home, "remove", unit=UNIT, cluster="other")
    assert home.exists()
    ask(home, "remove", unit=UNIT, cluster="lab")
    assert list(tmp_path.iterdir()) == []
    assert not ask(home, "observe", server="")["placed"]
    ask(home, "remove", unit=UNIT, cluster="lab")
    assert list(tmp_path.iterdir()) == []


def test_old_releases_are_removed_unless_a_process_runs_from_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("1", "2", "3", "4"):
        (home / "releases" / name).mkdir(parents=True)
        (home / "releases" / name / "complete").touch()
    (home / "current").symlink_to(Path("releases") / "4")
    shim = os.fsencode(home / "releases" / "2") + b"/bin/python\0-m\0shim"
    monkeypatch.setattr(on_host, "_command_lines", lambda: iter([b"python\0x", shim]))
    found = ask(home, "observe", server="")
    assert sorted(found["releases"]) == ["1", "2", "3", "4"]
    assert found["idle_releases"] == ["1", "3", "4"]
    ask(home, "prune", releases=["1", "2", "4", "../data"])
    assert sorted(one.name for one in (home / "releases").iterdir()) == ["2", "3", "4"]
    assert (home / "data").exists()


def test_the_release_before_is_remembered_over_restarts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_host, "_is_running", lambda *_: False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(subprocess.CompletedProcess, "pid", 1, raising=False)
    for release, former in (("a", ""), ("a", ""), ("b", "a"), ("b", "a"), ("a", "b")):
        ask(home, "start", restart=True, **{**service("pass"), "release": release})
        found = ask(home, "observe", server="")
        assert (found["started_release"], found["former_release"]) == (release, former)


def test_a_command_gets_the_variables_of_its_request(home: Path) -> None:
    command = [sys.executable, "-c", "import os; print(os.environ['ROTA_STORE'])"]
    done = ask(home, "run", command=command, timeout_s=60, environment={"ROTA_STORE": "etcd://a"})
    assert (done["code"], done["out"]) == (0, "etcd://a\n")


def test_the_unit_of_another_clusters_member_is_left_alone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = tmp_path / "units"
    units.mkdir()
    monkeypatch.setattr(on_host, "_UNITS", units)
    (units / UNIT).write_text("[Service]\nWorkingDirectory=/var/lib/rota-lab-w/1\n")
    asked = service("")
    asked["service"] = {**asked["service"], "unit": UNIT, "text": "[Service]\n"}
    with pytest.raises(Failed, match="is of a member of another cluster"):
        ask(home, "start", restart=True, **asked)
    ask(home, "remove", unit=UNIT, cluster="lab")
    assert (units / UNIT).exists()


def test_files_are_private(home: Path) -> None:
    ask(home, "write", path="join.env", text="secret")
    assert (home / "join.env").stat().st_mode & 0o777 == 0o600
    assert ask(home, "read", path="join.env") == "secret"
    ask(home, "unlink", path="join.env")
    with pytest.raises(Failed, match="cannot read"):
        ask(home, "read", path="join.env")


def test_an_operation_waits_for_the_one_before(home: Path) -> None:
    with on_host._locked(home):
        second = threading.Thread(target=ask, args=(home, "write"), kwargs={"path": "x", "text": "y"})
        second.start()
        second.join(0.3)
        assert second.is_alive()
        assert not (home / "x").exists()
    second.join(100)
    assert (home / "x").read_text() == "y"


def test_what_a_worker_has_elsewhere_is_named_as_the_runtime_names_it(home: Path) -> None:
    folder = home / "data" / "runtime"
    runtime = ProcessRuntime(folder, node="w1", clock=CLOCK)
    mark = zlib.crc32(str(folder).encode())
    name = runtime._groups._name
    assert {name, name + cgroups._TIER} == on_host._groups("w1", mark)


def test_a_process_that_is_left_in_a_control_group_is_killed(tmp_path: Path) -> None:
    left = subprocess.Popen(["sleep", "600"])
    (tmp_path / "cgroup.procs").write_text(f"{left.pid}\n")
    on_host._kill_members(tmp_path)
    assert left.wait(100) == -signal.SIGKILL


_SCRIPT = """
import os, sys, time
with open("pids", "a") as file:
    file.write(f"{os.getpid()} {os.environ['NAME']}\\n")
time.sleep(600)
"""


@pytest.mark.slow
def test_the_supervisor_starts_a_process_again_and_ends_with_it(home: Path, tmp_path: Path) -> None:
    worker = {"name": "w1", "address": "local"}
    spec = parsed(1, workers=[worker], folder=str(home.parent), python=sys.executable)
    reach, member, pids = Reach(spec, folder=tmp_path), spec.workers[0], home / "pids"

    def start(*, restart: bool = False, digest: str = "1") -> float:
        return float(reach.ask(member, {"op": "start", "restart": restart, **service(_SCRIPT, digest)}))

    def is_started(times: int) -> bool:
        return pids.exists() and pids.read_text().count("\n") == times

    def last() -> int:
        return int(pids.read_text().splitlines()[-1].split()[0])

    assert start() > 0
    until(lambda: is_started(1))
    assert pids.read_text() == f'{last()} a "b" \\c\n'
    os.kill(last(), signal.SIGKILL)
    until(lambda: is_started(2))
    # The same service is left alone; a restart or another digest replaces it.
    assert start() == 0
    assert ask(home, "observe", server="")["running"]
    start(restart=True)
    until(lambda: is_started(3))
    start(digest="2")
    until(lambda: is_started(4))
    # A killed supervisor takes its process with it.
    os.kill(json.loads((home / "supervisor.json").read_text())["pid"], signal.SIGKILL)
    until(lambda: not on_host._started_at(last()))
    until(lambda: not ask(home, "observe", server="")["running"])
    start(digest="2")
    until(lambda: is_started(5))
    pid = last()
    reach.ask(member, {"op": "remove", "unit": UNIT, "cluster": "lab"})
    assert not home.exists()
    assert not on_host._started_at(pid)


def packed(files: dict[str, bytes], /, **manifest: Any) -> tuple[str, bytes]:
    """A bundle, and the name of its release."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    described = json.dumps({"version": "1", "pip": "pip.whl", "files": hashes, **manifest}).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as target:
        for name, content in {"manifest.json": described, **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))
    return f"1-{hashlib.sha256(described).hexdigest()[:12]}", packed.getvalue()


def test_a_bundle_that_was_changed_is_not_installed(home: Path) -> None:
    release, whole = packed({"a.whl": b"wheel"}, files={"a.whl": hashlib.sha256(b"other").hexdigest()})
    with pytest.raises(Failed, match=r"a.whl of the bundle does not have its hash"):
        ask(home, "install", whole, release=release)
    with pytest.raises(Failed, match="the manifest of the bundle is not that of 1-"):
        ask(home, "install", packed({"a.whl": b"wheel"})[1], release=release)
    with pytest.raises(Failed, match=r"\.\./a.whl is no file of a bundle"):
        ask(home, "install", packed({"../a.whl": b""})[1], release=release)
    with pytest.raises(Failed, match="the bundle is damaged"):
        ask(home, "install", whole[:700], release=release)
    assert ask(home, "observe", server="")["releases"] == []
