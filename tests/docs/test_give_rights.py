"""The page docs/howto/give-rights.md, followed word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "give-rights.md"


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_page_works_as_written(tmp_path: Path) -> None:
    commands = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(commands) == 9
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
    assert done.stdout.splitlines().count("yes") == 3
    assert "widgets.example.com" in done.stdout
    assert "refused, as it should be" in done.stdout
    assert 'User "alice" cannot list resource "secrets" in API group "" in the namespace "kube-system"' in done.stderr
