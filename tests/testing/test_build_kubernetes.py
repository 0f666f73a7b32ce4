"""`scripts/build-kubernetes`: quick when there is nothing to do, frank when it cannot do it."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "build-kubernetes"
BASH = shutil.which("bash")
PROGRAMS = ("etcd", "kubectl", "kube-scheduler", "kube-apiserver", "kube-controller-manager")
TOOLS = ("cat", "cut", "dirname", "flock", "ln", "mkdir", "mv", "nice", "paste", "sed", "sha256sum")

pytestmark = pytest.mark.skipif(BASH is None or not SCRIPT.exists(), reason="needs bash and the repository's scripts")


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


def _program(path: Path, body: str = "exit 0") -> None:
    path.write_text(f"#!{BASH}\n{body}\n")
    path.chmod(0o755)


def _run(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    assert BASH is not None
    settings = {"HOME": str(home), "PATH": str(home / "bin"), **environment}
    return subprocess.run([BASH, SCRIPT], env=settings, capture_output=True, text=True, check=False)


def _built(home: Path) -> set[str]:
    return {path.name for path in (home / ".cache/rota/kubernetes/current").iterdir()}


def test_builds_each_program_once_and_says_so(home: Path) -> None:
    done = _run(home)
    assert done.returncode == 0, done.stderr
    assert _built(home) == set(PROGRAMS)
    assert "building kube-apiserver (Kubernetes v1." in done.stderr
    calls = (home / "calls").read_text().splitlines()
    assert len(calls) == len(PROGRAMS)
    assert all("-X k8s.io/component-base/version.gitVersion=v1." in call for call in calls)


def test_says_and_does_nothing_when_all_are_there(home: Path) -> None:
    _run(home)
    (home / "calls").unlink()
    done = _run(home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (home / "calls").exists()


def test_takes_what_the_assets_folder_has_and_builds_the_rest(home: Path) -> None:
    assets = home / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver", "kubectl"):
        _program(assets / name)
    _run(home, KUBEBUILDER_ASSETS=str(assets))
    assert _built(home) == {"kube-scheduler", "kube-controller-manager"}


def test_a_program_that_does_not_build_is_named_and_the_caller_goes_on(home: Path) -> None:
    _program(home / "bin" / "go", "exit 1")
    done = _run(home)
    assert done.returncode == 0
    assert "etcd could not be built; its tests will be skipped" in done.stderr
    assert _built(home) == set()


def test_without_go_it_says_what_is_left_out(home: Path) -> None:
    (home / "bin" / "go").unlink()
    done = _run(home, GOROOT=str(home))
    assert done.returncode == 0
    assert "no Go on the PATH; the tests that run etcd kubectl" in done.stderr
