"""The programs of the benchmark of colocation: a service, its client, and a hog. Only the standard library.

    python -m rota.bench.colocation_load serve SOCKET
    python -m rota.bench.colocation_load ask SOCKET SECONDS FILE
    python -m rota.bench.colocation_load hog

The client sends requests at a fixed rate over one connection, whether or not earlier ones were answered in time, and
counts each latency from the moment at which the request was due. It writes the latencies to a file, in milliseconds.
"""

import hashlib
import json
import socket
import sys
import time
from pathlib import Path
from typing import Final

#: Requests per second, and the rounds of a hash that each one costs: about two milliseconds.
RATE: Final = 100
_HASHES: Final = 3_000


def serve(path: str) -> None:
    """Answer requests of one client after another."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection:
                while connection.recv(1):
                    _work()
                    connection.sendall(b"y")


def ask(path: str, seconds: float, file: str) -> None:
    """Measure the service for a time."""
    latencies = []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        begin = time.perf_counter()
        for number in range(int(seconds * RATE)):
            due = begin + number / RATE
            if (early := due - time.perf_counter()) > 0:
                time.sleep(early)
            connection.sendall(b"x")
            connection.recv(1)
            latencies.append((time.perf_counter() - due) * 1e3)
    draft = Path(f"{file}.draft")
    draft.write_text(json.dumps(latencies), encoding="utf-8")
    draft.rename(file)


def hog() -> None:
    """Use a core, until killed."""
    while True:
        _work()


def _work() -> None:
    digest = b""
    for _ in range(_HASHES):
        digest = hashlib.sha256(digest).digest()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "serve":
        serve(*arguments)
    elif what == "ask":
        ask(arguments[0], float(arguments[1]), arguments[2])
    else:
        hog()
