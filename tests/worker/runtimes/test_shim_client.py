"""Open files come from the shim with the answer that they belong to; none is left open when that makes no sense."""

import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.testing.clocks import FakeClock
from rota.worker.runtimes.process.shim_client import SOCKET, ShimClient

_EXIT = {"exit": {"id": "another", "code": 0}}


def _framed(message: object) -> bytes:
    data = json.dumps(message).encode()
    return struct.pack("!I", len(data)) + data


def _files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _ask(folder: Path, say: Callable[[socket.socket, list[int]], object]) -> dict[str, int]:
    """Ask a shim that says this, and has two files to give away."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / SOCKET))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                pipe = list(os.pipe())
                say(connection, pipe)
                for end in pipe:
                    os.close(end)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            return await ShimClient(folder, on_exit=lambda _: None, clock=FakeClock()).ask_for_files("attach", id="x")
        finally:
            serving.join()


@pytest.mark.parametrize("together", [False, True])
async def test_what_ends_meanwhile_is_no_answer(tmp_path: Path, together: bool) -> None:
    def say(connection: socket.socket, pipe: list[int]) -> None:
        answer = _framed({"n": 0, "names": ["stdout", "stdin"]})
        if together:
            socket.send_fds(connection, [_framed(_EXIT) + answer], pipe)
        else:
            connection.sendall(_framed(_EXIT))
            socket.send_fds(connection, [answer], pipe)

    before = _files()
    found = await _ask(tmp_path, say)
    assert set(found) == {"stdout", "stdin"}
    os.write(found["stdin"], b"x")
    assert os.read(found["stdout"], 1) == b"x"
    for file in found.values():
        assert not os.get_inheritable(file)
        os.close(file)
    assert _files() == before


@pytest.mark.parametrize("answer", [{"n": 0, "names": ["stdout"]}, {"n": 0, "error": "OSError: no"}])
async def test_files_of_an_answer_that_makes_no_sense_are_closed(tmp_path: Path, answer: dict[str, object]) -> None:
    before = _files()
    with pytest.raises((ValueError, RuntimeError)):
        await _ask(tmp_path, lambda connection, pipe: socket.send_fds(connection, [_framed(answer)], pipe))
    assert _files() == before
