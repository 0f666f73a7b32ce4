"""What an ordinary user's tasks do not see, in a user namespace: tried by a process that is such a user."""

import ctypes
import os
from pathlib import Path

import pytest

from rota.worker.runtimes.process import isolation

_USER = 51_300
_PR_SET_DUMPABLE = 4


def _seen(folder: Path, plan: dict[str, object]) -> str:
    """What an ordinary user finds in a folder behind a plan; or why there is nothing behind it."""
    heard, said = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(_USER, _USER, _USER)
                os.setresuid(_USER, _USER, _USER)
                # as a program has it that this user has started
                ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
            isolation.enter(plan)
            names = sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))
            os.write(said, ("seen: " + " ".join(names)).encode())
        except BaseException as problem:  # noqa: BLE001 - this process ends here, whatever it is
            os.write(said, f"{type(problem).__name__}: {problem}".encode())
        finally:
            os._exit(0)
    os.close(said)
    with os.fdopen(heard, "rb") as file:
        text = file.read().decode()
    os.waitpid(child, 0)
    return text


def test_rotas_own_files_are_covered_but_for_what_the_task_needs(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Path("/var/tmp") / f"rota-test-{os.getpid()}"
    home = folder / "homes" / "uid"
    home.mkdir(parents=True)
    (folder / "kubeconfig").write_text("key")
    (home / "file").write_text("mine")
    for one in (folder, folder / "homes", home):
        os.chown(one, _USER if os.geteuid() == 0 else -1, -1)
    plan = {"hidden": [str(folder)], "exposed": [str(home)], "user_namespace": True}
    try:
        seen = _seen(folder, plan)
        if seen.startswith(("PermissionError", "OSError")):
            pytest.skip(f"this system lets ordinary users make no user namespaces: {seen}")
        assert seen == "seen: homes homes/uid homes/uid/file"
        assert _seen(folder, {**plan, "hidden": [str(folder / "kubeconfig")], "exposed": []}).startswith("seen: homes")
    finally:
        (home / "file").unlink()
        (folder / "kubeconfig").unlink()
        for one in (home, folder / "homes", folder):
            one.rmdir()


def test_containment_compares_whole_path_components() -> None:
    assert isolation.inside("/a/b", ["/a"])
    assert isolation.inside("/a", ["/a"])
    assert not isolation.inside("/ab", ["/a"])
    assert isolation.inside("/ab", ["/"])
