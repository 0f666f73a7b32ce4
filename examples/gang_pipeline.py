"""A pipeline with a gang: four processes fit one line together, as `torch.distributed` would, with nothing but sockets.

    rota up &
    python examples/gang_pipeline.py

Each process has a quarter of the data. In every round the processes send their gradients to process 0, which sends
the sum back, so that all of them take the same step. The four start together or not at all; the result is that of
process 0.
"""

import json
import os
import socket
import time
from typing import Any, TextIO

import rota

WORKERS = 4
PATIENCE_S = 120.0


@rota.task
def points(count: int) -> list[tuple[float, float]]:
    """Points near the line y = 3x + 2."""
    places = [round(number / count, 3) for number in range(count)]
    return [(x, round(3 * x + 2 + (0.01 if number % 2 else -0.01), 3)) for number, x in enumerate(places)]


class Peers:
    """The connections of a process: process 0 has one to each of the others, and each of them has one to it."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self._ends: list[TextIO] = []
        if self.size == 1:  # the function was called here, without a cluster
            return
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if self.rank == 0:
            with socket.create_server(("", address[1])) as server:
                self._ends = [server.accept()[0].makefile("rw") for _ in range(self.size - 1)]
        else:
            self._ends = [self._connect(address)]

    @staticmethod
    def _connect(address: tuple[str, int]) -> TextIO:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return socket.create_connection(address).makefile("rw")
            except OSError:  # process 0 does not listen yet
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def sum(self, values: list[float]) -> list[float]:
        """The sums over all processes, in each of them."""
        if self.rank == 0:
            rows = [values, *(json.loads(end.readline()) for end in self._ends)]
            values = [sum(column) for column in zip(*rows, strict=True)]
        for end in self._ends:
            end.write(json.dumps(values) + "\n")
            end.flush()
        return values if self.rank == 0 else list(json.loads(self._ends[0].readline()))


@rota.task(gang=WORKERS)
def fit(data: list[tuple[float, float]], rounds: int = 400, rate: float = 1.0) -> dict[str, Any]:
    """Gradient descent: each process works on its own part of the data."""
    peers = Peers()
    slope = offset = 0.0
    for _ in range(rounds):
        errors = [(x, slope * x + offset - y) for x, y in data[peers.rank :: peers.size]]
        down = peers.sum([sum(x * error for x, error in errors), sum(error for _, error in errors)])
        slope, offset = (old - rate * sum_ / len(data) for old, sum_ in zip((slope, offset), down, strict=True))
    return {"slope": round(slope, 1), "offset": round(offset, 1), "processes": peers.size}


@rota.task
def report(line: dict[str, Any]) -> str:
    """What the gang found."""
    return f"y = {line['slope']}x + {line['offset']}, by {line['processes']} processes"


@rota.pipeline
def regression(count: int = 60) -> str:
    """Make data, fit a line to it with a gang, and report it."""
    return report(fit(points(count)))


if __name__ == "__main__":
    with rota.Client() as client:
        print(regression.run(client).result())
