"""The page docs/howto/write-policies.md, followed word for word."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write-policies.md"


def _wait(text: str, log: str) -> str:
    return f"timeout 240 sh -c \"until grep -q '{text}' {log}; do sleep 0.1; done\""


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.timeout(600)
def test_the_page_works_as_written(tmp_path: Path) -> None:
    text = PAGE.read_text()
    for name, content in re.findall(r"```(?:yaml|python) (\S+)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(content)
    up, *rest = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (hook,) = (number for number, one in enumerate(rest) if "hook.py" in one)
    rest[hook] = rest[hook].replace("&", "> hook.log & hook=$!\ntrap 'kill $up $hook' EXIT")
    rest.insert(hook + 1, _wait("is written", "hook.log"))
    (convert,) = (number for number, one in enumerate(rest) if "convert.py" in one)
    rest[convert] = rest[convert].replace("&", "> convert.log & convert=$!\ntrap 'kill $up $hook $convert' EXIT")
    rest.insert(convert + 1, _wait("is there", "convert.log"))
    (apples,) = (number for number, one in enumerate(rest) if "apples.py" in one)
    rest[apples] = rest[apples].replace("&", "> apples.log & apples=$!\ntrap 'kill $up $hook $convert $apples' EXIT")
    rest.insert(apples + 1, _wait("is ready", "apples.log"))
    script = "\n".join(
        [
            "set -eu",
            up.replace("&", "> up.log & up=$!"),
            "trap 'kill $up' EXIT",
            # The page's reader sees the line before typing on; the script waits for it.
            _wait("Rota is up", "up.log"),
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
    assert "refused by the policy" in done.stdout
    assert "at most 3 replicas in default" in done.stderr
    assert "refused by the rule" in done.stdout
    assert "most must not be less than least" in done.stderr
    assert "refused by the webhook" in done.stdout
    assert 'admission webhook "check.example.com" denied the request: a ConfigMap needs data' in done.stderr
    assert "stored as 7T\nserved as 7 T\n" in done.stdout
    assert "apple.fruit.example.com/ripe-for-" in done.stdout
    assert "owner=" in done.stdout
    assert "example.com/by=policy,owner=default" in done.stdout
