"""Commands that run until they are told to stop, their first lines, and what a cluster shows of them."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rota.testing.live import LiveServer

ROTA = str(Path(sys.executable).with_name("rota"))
PATIENCE_S = 60.0


@contextlib.contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([ROTA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: "subprocess.Popen[str]", beginning: str) -> str:
    """What follows a beginning, once a line has it."""
    assert process.stdout is not None
    for said in process.stdout:
        if said.startswith(beginning):
            return said.removeprefix(beginning).strip().rstrip(".")
    raise AssertionError(f"it never said {beginning!r}")


def wait(condition: Callable[[], Any]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.05)


def taints(server: LiveServer, node: str) -> dict[str, str]:
    found = server.request("GET", f"/api/v1/nodes/{node}")[1]
    return {one["key"]: one.get("value", "") for one in found.get("spec", {}).get("taints") or ()}
