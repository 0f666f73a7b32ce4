"""The page docs/howto/sign-in.md, followed word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rota.testing.servers import binaries

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "sign-in.md"


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_page_works_as_written(tmp_path: Path) -> None:
    commands = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(commands) == 8
    up, *rest = commands
    script = "\n".join(
        [
            "set -eu",
            up.replace("&", "> up.log & up=$!"),
            "trap 'kill $up' EXIT",
            # The page's reader sees the line before typing on; the script waits for it.
            "timeout 30 sh -c \"until grep -q 'Rota is up' up.log; do sleep 0.1; done\"",
            *rest,
        ]
    )
    # the newest kubectl: `auth whoami` asks versions of the API before v1 in old ones
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(binaries.kubectls()[-1])
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    users = re.findall(r"^Username +(\S+)$", done.stdout, re.MULTILINE)
    assert users == ["rota-admin", "ann", "system:serviceaccount:default:robot"]
    assert "rack 7" in done.stdout
    assert (tmp_path / "cluster" / "kubeconfig").stat().st_mode & 0o077 == 0
