"""The page docs/howto/back-up-and-restore.md, followed word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "back-up-and-restore.md"


@pytest.mark.slow
def test_the_page_works_as_written(tmp_path: Path) -> None:
    commands = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(commands) == 8
    up, backup, restore, follow, *rest = commands
    # The page's reader sees each line before typing on; the script waits for it.
    script = "\n".join(
        [
            "set -eu",
            up.replace("&", "> up.log & up=$!"),
            "trap 'kill $up' EXIT",
            _wait("Rota is up", "up.log"),
            backup,
            restore,
            follow.replace("&", "> follow.log & follow=$!"),
            "trap 'kill $follow; kill $up' EXIT",
            _wait("Ctrl-C ends it", "follow.log"),
            *rest,
        ]
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"restored [1-9][0-9]* objects", done.stdout)
    assert len(re.findall(r"objects as of revision [0-9]+;", done.stdout)) == 2
    assert len(re.findall(r"were restored and are equal", done.stdout)) == 2
    assert all((tmp_path / name).exists() for name in ("copy.db", "latest.db", "moment.db"))
    assert (tmp_path / "today.backup").stat().st_mode & 0o077 == 0


def _wait(text: str, log: str) -> str:
    return f"timeout 60 sh -c \"until grep -q '{text}' {log}; do sleep 0.1; done\""
