"""A folder is held by one process at a time; earlier processes of its name are dead."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rota.kit import instance_lock
from rota.kit.errors import UserError


def test_the_holder_has_the_same_name_at_every_start(tmp_path: Path) -> None:
    with instance_lock.held(tmp_path / "lock") as first:
        pass
    with instance_lock.held(tmp_path / "lock") as second:
        assert second == first


def test_the_holders_of_two_folders_have_different_names_even_if_one_is_a_copy(tmp_path: Path) -> None:
    original, copy, other = tmp_path / "original", tmp_path / "copy", tmp_path / "other"
    original.mkdir()
    other.mkdir()
    with instance_lock.held(original / "lock"):
        pass
    shutil.copytree(original, copy)
    with (
        instance_lock.held(original / "lock") as one,
        instance_lock.held(copy / "lock") as two,
        instance_lock.held(other / "lock") as three,
    ):
        assert len({one, two, three}) == 3


def test_a_folder_that_is_held_is_refused(tmp_path: Path) -> None:
    with (
        instance_lock.held(tmp_path / "lock"),
        pytest.raises(UserError, match="runs already") as refused,
        instance_lock.held(tmp_path / "lock"),
    ):
        pass
    assert "--data" in str(refused.value.remedy)


@pytest.mark.slow
def test_a_holder_that_was_killed_holds_nothing_and_is_followed_under_its_name(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom rota.kit import instance_lock\n"
        "with instance_lock.held(Path(sys.argv[1])) as name:\n    print(name, flush=True)\n    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            name = process.stdout.readline().strip()
            with pytest.raises(UserError), instance_lock.held(tmp_path / "lock"):
                pass
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    with instance_lock.held(tmp_path / "lock") as successor:
        assert successor == name
