"""Bundles: installed without a network, by hash, and named by their content."""

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pip
import pytest
from tests.lifecycle.specs import parsed

from rota.kit.errors import UserError
from rota.kit.levels import Levels
from rota.lifecycle import bundle
from rota.lifecycle.reach import Reach, StepFailed


def _zipped(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        for name, text in files.items():
            target.writestr(name, text)
    return made.getvalue()


def _wheel(text: str) -> bytes:
    """A wheel named rota, with one module."""
    info = "rota-7.0.dist-info"
    return _zipped(
        {
            "rota.py": text,
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: rota\nVersion: 7.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": f"rota.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
        }
    )


def _packed(folder: Path, target: Path, *, text: str, locked: bytes | None = None) -> str:
    """A bundle of that wheel and of the pip of this environment; `locked` is the wheel whose hash is required."""
    folder.mkdir()
    wheel = _wheel(text)
    (folder / "rota-7.0-py3-none-any.whl").write_bytes(wheel)
    with zipfile.ZipFile(folder / "pip-1-py3-none-any.whl", "w") as made:
        home = Path(pip.__file__).parent
        for one in home.rglob("*"):
            if one.is_file() and "__pycache__" not in one.parts:
                made.write(one, str(one.relative_to(home.parent)))
    digest = hashlib.sha256(locked or wheel).hexdigest()
    (folder / "requirements.txt").write_text(f"rota==7.0 --hash=sha256:{digest}\n")
    return bundle._pack(folder, target, version="7.0", pip="pip-1-py3-none-any.whl")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_releases_are_installed_beside_each_other_and_only_with_the_right_hashes(tmp_path: Path) -> None:
    spec = parsed(1, masters=[{"name": "m1", "address": "local"}], folder=str(tmp_path / "lab"), python=sys.executable)
    reach, member = Reach(spec, folder=tmp_path), spec.masters[0]
    reach.ask(member, {"op": "prepare", "cluster": "lab", "role": "master"})
    for number in ("1", "2"):
        path = tmp_path / f"{number}.bundle"
        release = _packed(tmp_path / number, path, text=f"NUMBER = {number}")
        assert bundle.release(path) == release
        reach.ask(member, {"op": "install", "release": release}, payload=path)
        python = tmp_path / "lab" / "m1" / "releases" / release / "bin" / "python"
        command = [str(python), "-I", "-c", "import rota; print(rota.NUMBER)"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{number}\n"
    found = reach.ask(member, {"op": "observe", "server": ""})
    assert len(found["releases"]) == 2
    # A wheel that is not the locked one is refused by pip, and what it began is not taken for a release.
    path = tmp_path / "3.bundle"
    release = _packed(tmp_path / "3", path, text="NUMBER = 3", locked=_wheel("NUMBER = 4"))
    with pytest.raises(StepFailed, match="pip"):
        reach.ask(member, {"op": "install", "release": release}, payload=path)
    assert reach.ask(member, {"op": "observe", "server": ""})["releases"] == found["releases"]
    reach.ask(member, {"op": "remove", "unit": "none", "cluster": "lab"})
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"rota/kit/levels.py": "OWN = '3-4'"}, "3-4"),
        ({}, ""),
    ],
)
def test_the_levels_of_a_release_are_read_from_its_wheel(tmp_path: Path, files: dict[str, str], found: str) -> None:
    wheel = tmp_path / "rota-7.0-py3-none-any.whl"
    wheel.write_bytes(_zipped({"rota/__init__.py": "", "rota/kit/__init__.py": "", **files}))
    assert bundle._declared(wheel) == found


def test_a_wheel_whose_levels_cannot_be_read_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "rota-7.0-py3-none-any.whl"
    wheel.write_bytes(_zipped({"rota/__init__.py": "", "rota/kit/__init__.py": "", "rota/kit/levels.py": "1 / 0"}))
    with pytest.raises(UserError, match="ZeroDivisionError"):
        bundle._declared(wheel)


@pytest.mark.parametrize(("levels", "found"), [("3-4", Levels(3, 4)), ("", Levels(1, 1))])
def test_a_bundle_says_the_levels_of_its_release(tmp_path: Path, levels: str, found: Levels) -> None:
    (tmp_path / "files").mkdir()
    path = tmp_path / "x.bundle"
    name = bundle._pack(tmp_path / "files", path, version="7.0", pip="pip.whl", levels=levels)
    assert (bundle.release(path), bundle.levels(path)) == (name, found)


def test_a_file_that_is_no_bundle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    with pytest.raises(UserError, match=r"x.bundle is no bundle"):
        bundle.release(path)
    path.write_bytes(b"nonsense" * 200)
    with pytest.raises(UserError, match="make one with 'rota cluster bundle'"):
        bundle.release(path)
    with pytest.raises(UserError, match="is no source tree of Rota"):
        bundle.make(path, source=tmp_path)
