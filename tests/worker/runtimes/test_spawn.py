"""Both ways of starting a process come to the same: what it finds of the world around it, and why it cannot be."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.worker.runtimes import terminals
from rota.worker.runtimes.process import spawn

#: The library's way is taken for whoever says which groups it has.
WAYS: dict[str, dict[str, Any]] = {"directly": {}, "with the library": {"groups": []}}
PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    if WAYS[request.param] and os.geteuid() != 0:
        pytest.skip("only root may say so")
    spawn.keep_to_ourselves()
    before = os.umask(spawn.UMASK)
    yield WAYS[request.param]
    os.umask(before)


def run(
    way: dict[str, Any], argv: list[str], *, env: dict[str, str] | None = None, cwd: str = ""
) -> tuple[int, str, str]:
    here, files = Path.cwd(), len(list(Path("/proc/self/fd").iterdir()))
    request = {"argv": argv, "env": PATH if env is None else env, "cwd": cwd, **way}
    try:
        started = spawn.start(request, terminals.Ends(stdin=False, tty=False))
    finally:
        assert Path.cwd() == here, "the shim stays where it was"
    _, status = os.waitpid(started.pid, 0)
    said = {name: pipe.read().decode() for name, pipe in started.outputs.items()}
    for pipe in started.outputs.values():
        pipe.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    return os.waitstatus_to_exitcode(status), said["stdout"], said["stderr"]


def test_it_has_its_arguments_its_folder_and_its_variables(way: dict[str, Any], tmp_path: Path) -> None:
    script = 'echo "$0 $1 $HERE"; pwd; echo trouble >&2; exit 3'
    code, said, errors = run(way, ["sh", "-c", script, "a", "b"], env={**PATH, "HERE": "x"}, cwd=str(tmp_path))
    assert (code, said, errors) == (3, f"a b x\n{tmp_path}\n", "trouble\n")


@pytest.mark.parametrize("room", range(5))
def test_without_room_for_more_files_it_does_not_start_and_none_stays_open(way: dict[str, Any], room: int) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)  # all numbers below are taken
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + room, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            spawn.start({"argv": ["true"], "env": PATH, **way}, terminals.Ends(stdin=False, tty=False))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_it_leads_a_session_reads_nothing_and_inherits_nothing_else(way: dict[str, Any]) -> None:
    with Path("/dev/null").open():  # one more file of ours
        _, said, _ = run(way, ["sh", "-c", "cat; umask; ls /proc/self/fd"])
    # the last is the one by which it is listed
    assert said.split() == ["0022", "0", "1", "2", "3"]
    _, said, _ = run(way, ["sh", "-c", "echo $$; cut -d' ' -f6 /proc/$$/stat"])
    pid, session = said.split()
    assert pid == session


def test_signals_mean_to_it_what_they_usually_mean(way: dict[str, Any]) -> None:
    _, said, _ = run(way, ["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"])
    blocked, ignored = (int(line.split()[1], 16) for line in said.splitlines())
    assert not blocked
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


def test_a_program_is_looked_for_where_its_own_path_says(way: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "tool").write_text("#!/bin/sh\necho found\n")
    with pytest.raises(PermissionError):
        run(way, ["tool"], env={"PATH": f"{tmp_path}/first:{tmp_path}"})
    (tmp_path / "tool").chmod(0o755)
    assert run(way, ["tool"], env={"PATH": f"{tmp_path}/first:{tmp_path}"})[1] == "found\n"
    assert run(way, ["./tool"], env={}, cwd=str(tmp_path))[1] == "found\n"


@pytest.mark.parametrize(
    ("argv", "cwd", "named"),
    [
        (["/no/such/program"], "", "/no/such/program"),
        (["no-such-program"], "", "no-such-program"),
        (["true"], "/no/such/folder", "/no/such/folder"),
    ],
)
def test_what_is_missing_is_named(way: dict[str, Any], argv: list[str], cwd: str, named: str) -> None:
    with pytest.raises(FileNotFoundError) as problem:
        run(way, argv, cwd=cwd)
    assert problem.value.filename == named
