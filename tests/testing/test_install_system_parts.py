"""`scripts/install-system-parts`: quick when there is nothing to do, frank when it cannot do it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rota.testing.servers import binaries

SCRIPT = Path(__file__).parents[2] / "scripts" / "install-system-parts"
BASH = shutil.which("bash")

pytestmark = pytest.mark.skipif(BASH is None or not SCRIPT.exists(), reason="needs bash and the repository's scripts")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with the commands that the script needs and an apt-get that leaves a trace; none of the parts."""
    for name in ("dirname", "readlink"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    _program(tmp_path / "apt-get", f'echo "$@" >> {tmp_path}/apt-calls')
    return tmp_path


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!{BASH}\n{body}\n")
    path.chmod(0o755)


def _run(tools: Path) -> subprocess.CompletedProcess[str]:
    assert BASH is not None
    environment = {**os.environ, "PATH": str(tools)}
    return subprocess.run([BASH, SCRIPT], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.postgres
def test_nothing_is_called_and_nothing_said_when_everything_is_there(tools: Path) -> None:
    for part in (
        "etcd",
        "crun",
        "busybox",
        "ip",
        "chromium",
        "prometheus",
        "promtool",
        "prometheus-alertmanager",
        "sshd",
    ):
        _program(tools / part, "exit 0")
    postgres = binaries.postgres_folder()
    assert postgres is not None
    (tools / "postgres").symlink_to(postgres / "postgres")
    done = _run(tools)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tools / "apt-calls").exists()


def test_without_apt_it_names_what_is_missing_and_lets_the_caller_go_on(tools: Path) -> None:
    (tools / "apt-get").unlink()
    done = _run(tools)
    reason = "no apt-get" if os.geteuid() == 0 else "not root"
    assert done.returncode == 0
    parts = "etcd crun busybox iproute2 Chromium Prometheus Alertmanager sshd"
    assert f"{parts} missing ({reason}); their tests will be skipped" in done.stderr
    assert (
        "etcd-server crun busybox-static iproute2 chromium prometheus prometheus-alertmanager openssh-server"
        in done.stderr
    )
