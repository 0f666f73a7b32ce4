"""The pages docs/howto/add-a-worker.md and run-several-masters.md, followed word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rota.testing import process_cluster

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
_READY = "is up|is ready"


def _script(page: str) -> str:
    """The commands of a page; what is left running ends with it, and its reader waits until it is ready."""
    lines = ["set -eu", "pids=", "trap 'kill $pids 2>/dev/null || :; wait' EXIT"]
    for number, block in enumerate(re.findall(r"```sh\n(.*?)```", (HOWTO / page).read_text(), re.DOTALL)):
        for line in block.splitlines():
            command, background, rest = line.partition(" &")
            if not background:
                lines.append(line)
                continue
            lines.append(f"{command} > {number}.log 2>&1 &{rest}")
            lines.append('pids="$pids $!"')
            lines.append(f"timeout 120 sh -c \"until grep -Eq '{_READY}' {number}.log; do sleep 0.1; done\"")
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", ["add-a-worker.md", "run-several-masters.md"])
def test_the_page_works_as_written(page: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    known = {name: value for name, value in os.environ.items() if name not in {"KUBECONFIG", "ROTA_HOME"}}
    try:
        done = subprocess.run(
            ["sh", "-c", _script(page)],
            cwd=tmp_path,
            env={**known, "PATH": path, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
    finally:
        process_cluster.end_tasks(tmp_path)
    logs = "\n".join(one.read_text() for one in tmp_path.glob("*.log"))
    assert done.returncode == 0, f"{done.stderr}\n{logs}"
    for promised in re.findall(r"```text\n(.*?)```", (HOWTO / page).read_text(), re.DOTALL):
        assert promised in done.stdout, done.stdout
