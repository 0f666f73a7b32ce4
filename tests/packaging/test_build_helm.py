"""`scripts/build-helm`: quick when there is nothing to do, frank when it cannot do it."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "build-helm"
BASH = shutil.which("bash")
TOOLS = ("cat", "cut", "dirname", "flock", "ln", "mkdir", "mv", "nice", "sed", "sha256sum")

pytestmark = pytest.mark.skipif(BASH is None, reason="needs bash")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a `bin` of what the script needs, and a `go` that only writes down what it was asked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"needs {name}")
        (folder / name).symlink_to(found)
    note, make = f'echo "$@" >> {tmp_path}/calls', f': > "$2"; {shutil.which("chmod")} +x "$2"'
    _program(folder / "go", f"{note}\nwhile [[ $1 != -o ]]; do shift; done\n{make}")
    return tmp_path


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!{BASH}\n{body}\n")
    path.chmod(0o755)


def _run(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    assert BASH is not None
    settings = {"HOME": str(home), "PATH": str(home / "bin"), **environment}
    return subprocess.run([BASH, SCRIPT], env=settings, capture_output=True, text=True, check=False)


def test_builds_it_once_and_says_so(home: Path) -> None:
    done = _run(home)
    assert done.returncode == 0, done.stderr
    assert "building Helm v3." in done.stderr
    assert (home / ".cache/rota/helm/current/helm").exists()
    (call,) = (home / "calls").read_text().splitlines()
    assert "-X helm.sh/helm/v3/internal/version.version=v3." in call
    (home / "calls").unlink()
    done = _run(home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (home / "calls").exists()


@pytest.mark.parametrize(("version", "is_taken"), [("v3.19.0+gabc", True), ("v4.0.0", False)])
def test_takes_a_helm_3_that_is_there(home: Path, version: str, is_taken: bool) -> None:
    _program(home / "bin" / "helm", f"echo {version}")
    assert _run(home).returncode == 0
    assert (home / "calls").exists() is not is_taken


def test_one_that_does_not_build_is_no_obstacle(home: Path) -> None:
    _program(home / "bin" / "go", "exit 1")
    done = _run(home)
    assert done.returncode == 0
    assert "the tests of the chart will be skipped" in done.stderr
    assert not (home / ".cache/rota/helm/current/helm").exists()


def test_without_go_it_says_what_is_left_out(home: Path) -> None:
    (home / "bin" / "go").unlink()
    done = _run(home, GOROOT=str(home))
    assert done.returncode == 0
    assert "no Go on the PATH; the tests of the chart will be skipped" in done.stderr
