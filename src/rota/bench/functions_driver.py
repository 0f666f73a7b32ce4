"""One side of the benchmark of functions: a program that submits calls to Rota, dask.distributed or Ray.

It is run as a file by the Python that has the side's library, so it imports nothing else. It reads one command per line
from its input, and prints one JSON object for each.
"""

import json
import os
import statistics
import sys
import time

CALLS = 5000
TRIPS = 200
ARRAY_MB = 100


def nothing(value):  # type: ignore[no-untyped-def] # noqa: D103
    return value


class Rota:
    """Calls in leased workers."""

    def __init__(self, mark: str) -> None:
        import rota  # noqa: PLC0415 - only this side has it

        self._rota = rota
        self._task = rota.task(env={"ROTA_BENCH_MARK": mark})(nothing)
        self._client = rota.Client(leases=3)

    def many(self, count: int) -> None:
        """Submit calls one by one, and read all results."""
        futures = [self._client.submit(self._task, number) for number in range(count)]
        for future in futures:
            future.result()

    def stream(self, count: int) -> None:
        """Calls of which only a window is kept."""
        for _ in self._client.imap(self._task, range(count)):
            pass

    def one(self, value: object) -> object:
        """One call."""
        return self._client.submit(self._task, value).result()

    def cold_s(self) -> float:
        """Seconds from the first call of a client to its result."""
        with self._rota.Client(leases=1) as client:
            started = time.perf_counter()
            client.submit(self._task, 1).result()
            return time.perf_counter() - started

    def close(self) -> None:
        """Give the leases back."""
        self._client.close()


class Dask:
    """Three processes of dask.distributed with one thread each."""

    def __init__(self, mark: str) -> None:
        from distributed import Client, LocalCluster  # type: ignore[import-not-found] # noqa: PLC0415 - as above

        self._cluster = LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None)
        self._client = Client(self._cluster)

    def many(self, count: int) -> None:
        """As above."""
        self._client.gather([self._client.submit(nothing, number, pure=False) for number in range(count)])

    def one(self, value: object) -> object:
        """As above."""
        return self._client.submit(nothing, value, pure=False).result()

    def close(self) -> None:
        """End the processes."""
        self._client.close()
        self._cluster.close()


class Ray:
    """A Ray instance with three processors."""

    def __init__(self, mark: str) -> None:
        import ray  # type: ignore[import-not-found] # noqa: PLC0415 - as above

        self._ray = ray
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False)
        self._remote = ray.remote(nothing)

    def many(self, count: int) -> None:
        """As above."""
        self._ray.get([self._remote.remote(number) for number in range(count)])

    def one(self, value: object) -> object:
        """As above."""
        return self._ray.get(self._remote.remote(value))

    def close(self) -> None:
        """End it."""
        self._ray.shutdown()


def answer(side: "Rota | Dask | Ray", what: str, count: int) -> dict[str, float]:
    """What one command measures."""
    if what == "many":
        started = time.perf_counter()
        side.many(count)
        return {"value": count / (time.perf_counter() - started)}
    if what == "trips":
        times = []
        for number in range(count):
            started = time.perf_counter()
            side.one(number)
            times.append(time.perf_counter() - started)
        return {"value": statistics.median(times) * 1e3}
    if what == "array":
        import numpy  # noqa: ICN001, PLC0415 - only this needs it

        array = numpy.ones(count * 131_072)
        started = time.perf_counter()
        back = side.one(array)
        took = time.perf_counter() - started
        assert len(back) == len(array)  # type: ignore[arg-type]
        return {"value": 2 * count / took}
    if what == "cold" and isinstance(side, Rota):
        return {"value": side.cold_s() * 1e3}
    if what in {"memory", "kept"}:
        if what == "memory" and isinstance(side, Rota):
            side.stream(count)
        else:
            side.many(count)
        with open("/proc/self/statm") as file:  # noqa: PTH123 - as above
            return {"value": int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20}
    raise ValueError(what)


def main() -> None:
    """Answer commands until the input ends."""
    kinds: dict[str, type[Rota | Dask | Ray]] = {"rota": Rota, "dask": Dask, "ray": Ray}
    side = kinds[sys.argv[1]](os.environ.get("ROTA_BENCH_MARK", ""))
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            what, count = line.split()
            sys.stdout.write(json.dumps(answer(side, what, int(count))) + "\n")
            sys.stdout.flush()
    finally:
        side.close()


if __name__ == "__main__":
    main()
