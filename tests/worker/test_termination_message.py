"""Files for last words are made where the worker decides, and nowhere else, whatever a pod's variables say."""

from pathlib import Path

import pytest

from rota.worker import termination_message
from rota.worker.runtimes.runtime_interface import CONTAINER, PROCESS, Launch


def _launch(said: Path, *, runtime: str, user: int | None = None) -> Launch:
    return Launch(
        uid="u", namespace="n", pod="p", container="c", run=0, image="", command=["true"], args=[],
        env={termination_message.VARIABLE: str(said)}, user=user, runtime=runtime,
    )  # fmt: skip


@pytest.mark.parametrize("runtime", [PROCESS, CONTAINER])
def test_a_variable_of_a_pod_that_has_its_own_path_makes_no_files(tmp_path: Path, runtime: str) -> None:
    said = tmp_path / "elsewhere" / ".last-words.x"
    container = {"name": "c", "terminationMessagePath": "/tmp/words"}
    launch = termination_message.given(
        _launch(said, runtime=runtime), container, tmp_path / "pod", home=str(tmp_path / "home"), may_mount=True
    )
    termination_message.prepare(tmp_path / "pod", launch)
    assert not said.parent.exists()


def test_another_user_writes_the_same_file_by_a_name_in_its_home(tmp_path: Path) -> None:
    said, home = tmp_path / "elsewhere" / ".last-words.x", tmp_path / "home"
    launch = _launch(said, runtime=PROCESS, user=1000)
    launch = termination_message.given(launch, {"name": "c"}, tmp_path / "pod", home=str(home), may_mount=False)
    termination_message.prepare(tmp_path / "pod", launch)
    told = Path(launch.env[termination_message.VARIABLE])
    assert told.parent == home
    told.write_text("done")
    assert termination_message.read(tmp_path / "pod", "c", 0) == "done"
    assert not said.parent.exists()


def test_a_plain_name_is_meant_in_the_home_and_nothing_is_made_elsewhere(tmp_path: Path) -> None:
    """Our API server takes absolute paths only; others may not."""
    launch, home = _launch(tmp_path / "x", runtime=PROCESS), tmp_path / "home"
    container = {"name": "c", "terminationMessagePath": "tm"}
    launch = termination_message.given(launch, container, tmp_path / "pod", home=str(home), may_mount=True)
    termination_message.prepare(tmp_path / "pod", launch)
    (home / "tm").write_text("done")
    assert termination_message.read(tmp_path / "pod", "c", 0) == "done"
    assert not launch.mounts
