"""The page docs/howto/keep-a-standby.md, followed word for word; then the old store takes no master any more."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "keep-a-standby.md"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_works_as_written(tmp_path: Path) -> None:
    commands = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(commands) == 5
    up, follow, status, promote, start = commands
    options = "--workers 0 --port 0"
    # The page's reader sees each line before typing on; the script waits for it.
    script = "\n".join(
        [
            "set -eu",
            up.replace("&", f"{options} > up.log & up=$!"),
            "trap 'kill $up' EXIT",
            _wait("Rota is up", "up.log"),
            follow.replace("&", "> follow.log 2> follow.err & follow=$!"),
            "trap 'kill $up $follow || true' EXIT",
            _wait("Ctrl-C ends it", "follow.log"),
            status,
            promote,
            # The standby process finds that it was promoted, and ends.
            "wait $follow && exit 9 || true",
            "kill $up; wait $up || true",
            "trap - EXIT",
            start.replace(" &\n", f" {options} > promoted.log & up=$!\n"),
            "trap 'kill $up' EXIT",
            _wait("Rota is up", "promoted.log"),
            f"rota up --data ./cluster {options} && exit 8 || true",
        ]
    )
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is a standby (epoch 0)" in done.stdout
    assert "is the primary of epoch 1" in done.stdout
    assert "this store is a primary (epoch 1)" in (tmp_path / "follow.err").read_text()
    assert "this store was superseded by the promotion of a standby (epoch 1)" in done.stderr
    assert "Traceback" not in done.stderr


def _wait(text: str, log: str) -> str:
    return f"timeout 120 sh -c \"until grep -q '{text}' {log}; do sleep 0.1; done\""
