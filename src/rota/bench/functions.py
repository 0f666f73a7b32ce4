"""Benchmark of Python calls: Rota's leased workers beside dask.distributed and Ray, three workers each.

Each side is a program of its own (`functions_driver`) that runs during the whole measurement; the sides take turns
(`rounds`). The peers are measured if the Python that $ROTA_BENCH_PEERS names has them.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from rota.bench import functions_driver, rounds
from rota.bench.report import Result
from rota.bench.rounds import Paired

PEERS: Final = "ROTA_BENCH_PEERS"
#: The wanted ratios to each peer: calls per second, time of a round trip, throughput of an array there and back.
GOALS: Final = {"dask": (1.5, 3.0, 0.7), "ray": (0.8, None, None)}
_SHOWN: Final = {"dask": "dask.distributed", "ray": "Ray"}


class Side:
    """A running driver."""

    def __init__(self, process: "subprocess.Popen[str]", mark: str) -> None:
        assert process.stdin is not None, "it was asked for"
        assert process.stdout is not None, "it was asked for"
        self._input: Final[IO[str]] = process.stdin
        self._output: Final[IO[str]] = process.stdout
        self._mark: Final = mark

    def ask(self, what: str, count: int) -> float:
        """One measurement."""
        self._input.write(f"{what} {count}\n")
        self._input.flush()
        return float(json.loads(_line(self._output))["value"])

    def round(self, *, calls: int, trips: int, megabytes: int) -> Mapping[str, float]:
        """All measurements of a round."""
        before = rounds.processor_s(self._mark)
        rate = self.ask("many", calls)
        spent = rounds.processor_s(self._mark) - before
        return {
            "calls": rate,
            "processor": spent / calls * 1e3,
            "trip": self.ask("trips", trips),
            "array": self.ask("array", megabytes),
        }


def measure(*, store_url: str, quick: bool) -> list[Result]:
    """All figures; `store_url` is that of Rota's cluster."""
    size = {"calls": 500, "trips": 50, "megabytes": 20} if quick else {"calls": 5000, "trips": 200, "megabytes": 100}
    with contextlib.ExitStack() as stack:
        kubeconfig = stack.enter_context(_cluster(store_url, mark := _mark()))
        ours = stack.enter_context(_driver("rota", sys.executable, mark, KUBECONFIG=str(kubeconfig)))
        sides = {"rota": ours}
        peers = os.environ.get(PEERS, "")
        for name, module in (("dask", "distributed"), ("ray", "ray")):
            if peers and _has(peers, module):
                sides[name] = stack.enter_context(_driver(name, peers, _mark()))
        found = rounds.alternate(
            {name: (lambda side=side: side.round(**size)) for name, side in sides.items()},  # type: ignore[misc]
            rounds=2 if quick else rounds.ROUNDS,
        )
        results = _figures(found, size["calls"])
        results.append(rounds.alone("first call of a client", [ours.ask("cold", 1) for _ in range(5)], unit="ms"))
        if not quick:
            # The window of `imap` is 10,000 calls, so more than that must not take more memory.
            before, after, kept = ours.ask("memory", 20_000), ours.ask("memory", 100_000), ours.ask("kept", 100_000)
            results.append(
                Result(name="growth of the client by 100,000 calls of imap", value=after - before, unit="MiB")
            )
            results.append(
                Result(name="growth by 100,000 calls whose futures are kept", value=kept - after, unit="MiB")
            )
        return results


def _figures(found: Mapping[str, Mapping[str, list[float]]], calls: int) -> list[Result]:
    ours = found["rota"]
    names = (
        ("calls", f"{calls} calls that do nothing", "1/s", True),
        ("trip", "round trip of a call", "ms", False),
        ("array", "an array there and back", "MB/s", True),
        ("processor", "processor time of a call, all processes", "ms", False),
    )
    results = []
    for key, name, unit, more in names:
        peers = [one for one in found if one != "rota"]
        if not peers:
            results.append(rounds.alone(name, ours[key], unit=unit))
        for peer in peers:
            goals = dict(zip(("calls", "trip", "array"), GOALS[peer], strict=True))
            pair = Paired(ours[key], found[peer][key])
            results.append(
                rounds.compared(name, pair, unit=unit, against=_SHOWN[peer], more_is_better=more, goal=goals.get(key))
            )
    return results


def _mark() -> str:
    return f"bench-{secrets.token_hex(8)}"


def _line(stream: IO[str]) -> str:
    for line in iter(stream.readline, ""):
        if line.startswith(("{", "ready")):
            return line
    raise RuntimeError("a side of the benchmark has ended; its messages are above")


def _has(python: str, module: str) -> bool:
    asked = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", asked], check=False, capture_output=True).returncode == 0


@contextlib.contextmanager
def _driver(name: str, python: str, mark: str, **variables: str) -> Iterator[Side]:
    # -P: its folder has modules with names of the standard library
    command = [python, "-P", str(Path(functions_driver.__file__)), name]
    environment = {**os.environ, "ROTA_BENCH_MARK": mark, **variables}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        side = Side(process, mark)
        assert process.stdout is not None, "it was asked for"
        _line(process.stdout)
        try:
            yield side
        finally:
            assert process.stdin is not None, "it was asked for"
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def _cluster(store_url: str, mark: str) -> Iterator[Path]:
    """A cluster with three workers, as `rota up` starts it."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        command = [sys.executable, "-m", "rota", "up", "--workers", "3", "--data", folder, "--port", "0"]
        environment = {**os.environ, "ROTA_BENCH_MARK": mark}
        with subprocess.Popen(
            [*command, "--store", store_url], env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None, "it was asked for"
            try:
                if not any("Rota is up" in line for line in iter(process.stdout.readline, "")):
                    raise RuntimeError("the cluster did not start; its messages are above")
                yield Path(folder) / "kubeconfig"
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
