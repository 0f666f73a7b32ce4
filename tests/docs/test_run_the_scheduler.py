"""The page docs/howto/run-the-scheduler.md, followed word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "run-the-scheduler.md"


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_page_works_as_written(tmp_path: Path) -> None:
    commands = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(commands) == 6
    up, *rest = commands
    script = "\n".join(
        [
            "set -eu",
            up.replace("&", "> up.log & up=$!"),
            'trap "kill $up" EXIT',
            # The page's reader sees the line before typing on; the script waits for it.
            "timeout 60 sh -c \"until grep -q 'Rota is up' up.log; do sleep 0.1; done\"",
            *(each.replace("packing.yaml &", 'packing.yaml & trap "kill $up $!" EXIT') for each in rest),
        ]
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^cpu +4 +3 +1 +75%$", done.stdout, re.MULTILINE), done.stdout
    assert "0/1 nodes are available: 1 Insufficient cpu." in done.stdout
