"""Images by name: podman's answers, from a program that stands in for it, and from podman itself where it is."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.worker.runtimes.bench import build_root, needs_containers, opened

from rota.worker.runtimes.container.podman import Podman
from rota.worker.runtimes.runtime_interface import CONTAINER, LaunchError

pytestmark = pytest.mark.slow
#: Has the images whose names are in a file, and pulls all but those of one registry.
STAND_IN = """#!/bin/sh
echo "$*" >> {folder}/calls
case "$1 $2" in
  "image exists") grep -qx "$3" {folder}/images ;;
  "pull --quiet") case "$3" in bad/*) echo trying; echo "Error: no such registry" >&2; exit 125 ;; esac
                  echo "$3" >> {folder}/images ;;
  "image mount") echo {folder}/root ;;
  "image inspect") echo '{{"Cmd": ["x"], "Env": ["A=1"]}}' ;;
  *) exit 64 ;;
esac
"""


@pytest.fixture
def podman(tmp_path: Path) -> Podman:
    (tmp_path / "images").write_text("here\n")
    program = tmp_path / "podman"
    program.write_text(STAND_IN.format(folder=tmp_path))
    program.chmod(0o755)
    return Podman(str(program))


def _pulls(tmp_path: Path) -> list[str]:
    return [one for one in (tmp_path / "calls").read_text().splitlines() if one.startswith("pull")]


async def test_an_image_that_is_there_is_not_pulled(podman: Podman, tmp_path: Path) -> None:
    found = await podman.find("here", policy="IfNotPresent")
    assert found == (tmp_path / "root", {"Cmd": ["x"], "Env": ["A=1"]})
    assert _pulls(tmp_path) == []
    await podman.find("here", policy="Always")
    assert _pulls(tmp_path) == ["pull --quiet here"]


async def test_an_image_that_is_missing_is_pulled_unless_it_must_not_be(podman: Podman, tmp_path: Path) -> None:
    assert await podman.find("other", policy="IfNotPresent") is not None
    assert _pulls(tmp_path) == ["pull --quiet other"]
    with pytest.raises(LaunchError) as never:
        await podman.find("third", policy="Never")
    assert never.value.reason == "ErrImageNeverPull"


async def test_why_an_image_cannot_be_pulled_is_said(podman: Podman) -> None:
    with pytest.raises(LaunchError) as refused:
        await podman.find("bad/image", policy="IfNotPresent")
    assert refused.value.reason == "ErrImagePull"
    assert refused.value.message == 'image "bad/image" could not be pulled: Error: no such registry'


async def test_a_machine_without_podman_has_no_such_images(tmp_path: Path) -> None:
    assert await Podman(str(tmp_path / "nothing")).find("x", policy="Always") is None


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[str]:
    """An image in podman's own store, for as long as the test takes."""
    if shutil.which("podman") is None or os.geteuid() != 0:
        pytest.skip("podman is not installed, or this is not root")
    root, name = build_root(tmp_path / "root"), f"localhost/rota-test-{uuid.uuid4().hex[:8]}:1"
    subprocess.run(["tar", "-C", str(root), "-cf", str(tmp_path / "root.tar"), "."], check=True)
    command = ["podman", "import", "--quiet", "--change", 'CMD ["cat", "/mark"]', str(tmp_path / "root.tar"), name]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if made.returncode:
        pytest.skip(f"podman does not work here: {made.stderr.strip()}")
    try:
        yield name
    finally:
        subprocess.run(["podman", "image", "unmount", "--force", name], capture_output=True, check=False, timeout=60)
        subprocess.run(["podman", "rmi", "--force", name], capture_output=True, check=False, timeout=60)


@needs_containers
async def test_an_image_of_podman_is_run(imported: str, tmp_path: Path) -> None:
    async with opened(tmp_path, runtime=CONTAINER, image=imported) as bench:
        await bench.start()
        assert (await bench.exit()).code == 0
        assert await bench.log() == b"of the image\n"
