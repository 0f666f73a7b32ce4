"""The page docs/howto/protect.md, followed word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rota.testing.servers import binaries

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "protect.md"


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.timeout(600)
def test_the_page_works_as_written(tmp_path: Path) -> None:
    text = PAGE.read_text()
    files = re.findall(r"```yaml (\S+)\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in files] == ["policy.yaml", "admission.yaml"]
    for name, content in files:
        (tmp_path / name).write_text(content)
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(commands) == 6
    up, *rest = commands
    script = "\n".join(
        [
            "set -eu",
            up.replace("&", "> up.log & up=$!"),
            "trap 'kill $up' EXIT",
            # The page's reader sees the line before typing on; the script waits for it.
            "timeout 240 sh -c \"until grep -q 'Rota is up' up.log; do sleep 0.1; done\"",
            *rest,
        ]
    )
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
    assert "hunter2hunter2" in done.stdout
    assert 'namespace "workshop" is exempt from Pod Security, and the policy (enforce=baseline:latest' in done.stderr
    assert done.stdout.count("not to be found") == 2
    before, after = re.findall(r"^secrets +(\S+) +\d+ +yes$", done.stdout, re.MULTILINE)
    assert before != after
    assert '"objectRef":{"resource":"secrets","namespace":"default","name":"door"' in done.stdout
    assert "rota_apiserver_requests_refused" in done.stdout
    assert (tmp_path / "cluster" / "encryption-keys.yaml").stat().st_mode & 0o077 == 0
