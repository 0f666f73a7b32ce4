#!/usr/bin/env python
"""Rota beside other task systems: the same commands that do nothing, three workers each, on this machine, in one run.

    benchmarks/against_task_systems.py [--tasks 1000] [--json] [--install]

Measured from the first submission to the last end that the submitter sees, after a few tasks that are not counted:
HyperQueue, Celery with Redis and dask.distributed (from PyPI), Slurm (Debian's packages) where it can be started, and
processes spawned from asyncio by nobody's help. --install puts the others into a folder of their own below
~/.cache/rota, not into this project's environment; who is not there is left out. Each runs a process for each task.
"""

import argparse
import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import uvloop

from rota.bench import tasks
from rota.bench.report import Report, Result, rate, this_machine

HOME = Path.home() / ".cache" / "rota" / "peers"
PYTHON = HOME / "venv" / "bin" / "python"
ROOT = HOME / "root"
LIBRARIES = ROOT / "usr" / "lib" / "x86_64-linux-gnu"
PYPI = ("hyperqueue", "celery[redis]", "distributed")
DEBIAN = (
    *("redis-server", "redis-tools", "liblzf1", "libjemalloc2"),
    *("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libmunge2", "libhwloc15"),
)
WORKERS = 3
WARM_UP = 20
LONGEST_S = 300.0

HYPERQUEUE = """
    import sys, time
    from hyperqueue import Job, LocalCluster
    from hyperqueue.cluster import WorkerConfig

    def run(client, count):
        job = Job()
        for _ in range(count):
            job.program(["/bin/true"])
        begin = time.perf_counter()
        client.wait_for_jobs([client.submit(job)])
        return time.perf_counter() - begin

    if __name__ == "__main__":
        with LocalCluster() as cluster:
            for _ in range({workers}):
                cluster.start_worker(WorkerConfig(cores=1))
            client = cluster.client()
            run(client, {warm_up})
            print("took", run(client, {count}))
"""

CELERY_TASKS = """
    import subprocess
    from celery import Celery

    app = Celery("nothing", broker="redis://127.0.0.1:{port}/0", backend="redis://127.0.0.1:{port}/1")

    @app.task
    def nothing():
        return subprocess.run(["/bin/true"]).returncode
"""

CELERY = """
    import time
    from celery import group
    from nothing import nothing

    def run(count):
        begin = time.perf_counter()
        group(nothing.s() for _ in range(count))().get()
        return time.perf_counter() - begin

    run({warm_up})
    print("took", run({count}))
"""

DASK = """
    import subprocess, time
    from distributed import Client, LocalCluster

    def nothing(_):
        return subprocess.run(["/bin/true"]).returncode

    def run(client, count):
        begin = time.perf_counter()
        client.gather(client.map(nothing, range(count), pure=False))
        return time.perf_counter() - begin

    if __name__ == "__main__":
        with LocalCluster(n_workers={workers}, threads_per_worker=1, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                run(client, {warm_up})
                print("took", run(client, {count}))
"""

SLURM = """
    ClusterName=bench
    SlurmctldHost={host}
    SlurmUser={user}
    SlurmdUser={user}
    AuthType=auth/none
    CredType=cred/none
    PluginDir={plugins}
    StateSaveLocation={folder}/state
    SlurmdSpoolDir={folder}/spool
    SlurmctldPidFile={folder}/slurmctld.pid
    SlurmdPidFile={folder}/slurmd.pid
    SlurmctldLogFile={folder}/slurmctld.log
    SlurmdLogFile={folder}/slurmd.log
    SlurmctldPort={controller}
    SlurmdPort={daemon}
    ProctrackType=proctrack/pgid
    TaskPlugin=task/none
    JobAcctGatherType=jobacct_gather/none
    SelectType=select/cons_res
    SelectTypeParameters=CR_CPU
    SchedulerType=sched/backfill
    SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,defer
    MaxJobCount=20000
    MinJobAge=2
    ReturnToService=2
    MpiDefault=none
    SlurmdParameters=config_overrides
    NodeName={host} CPUs={workers} State=UNKNOWN
    PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def install() -> None:
    """Put the others where they are looked for."""
    HOME.mkdir(parents=True, exist_ok=True)
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
    subprocess.run([str(PYTHON), "-m", "pip", "install", "--quiet", *PYPI], check=True)
    packages = HOME / "debs"
    packages.mkdir(exist_ok=True)
    subprocess.run(["/usr/bin/apt-get", "download", *DEBIAN], cwd=packages, check=True)
    for package in packages.glob("*.deb"):
        subprocess.run(["/usr/bin/dpkg", "-x", str(package), str(ROOT)], check=True)


def hyperqueue(count: int) -> float:
    """Seconds for so many processes."""
    return _program(HYPERQUEUE, count)


def dask(count: int) -> float:
    """Seconds for so many processes."""
    return _program(DASK, count)


def celery(count: int) -> float:
    """Seconds for so many processes; Redis runs for as long as that."""
    with _folder() as folder, contextlib.ExitStack() as parts:
        port = _free_port()
        redis = [str(ROOT / "usr/bin/redis-server"), "--port", str(port), "--save", "", "--dir", str(folder)]
        parts.enter_context(_running(redis, cwd=folder))
        _wait_for(port)
        (folder / "nothing.py").write_text(textwrap.dedent(CELERY_TASKS.format(port=port)))
        worker = [str(PYTHON), "-m", "celery", "-A", "nothing", "worker", "-c", str(WORKERS), "-l", "error"]
        parts.enter_context(_running([*worker, "--without-gossip", "--without-mingle"], cwd=folder))
        return _program(CELERY, count, folder=folder)


def slurm(count: int) -> float:
    """Seconds for so many jobs of one array, which is Slurm's own way to submit many."""
    with _folder() as folder, contextlib.ExitStack() as parts:
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (folder / name).mkdir()
        text = SLURM.format(
            host=host,
            user=getpass.getuser(),
            plugins=LIBRARIES / "slurm-wlm",
            folder=folder,
            controller=_free_port(),
            daemon=_free_port(),
            workers=WORKERS,
        )
        (folder / "slurm.conf").write_text(textwrap.dedent(text) + f"MaxArraySize={count + 1}\n")
        around = {**_environment(), "SLURM_CONF": str(folder / "slurm.conf")}
        programs = ROOT / "usr/sbin"
        parts.enter_context(_running([str(programs / "slurmctld-wlm"), "-D"], cwd=folder, env=around))
        daemon = [str(programs / "slurmd-wlm"), "-D", "-d", str(programs / "slurmstepd-wlm")]
        parts.enter_context(_running(daemon, cwd=folder, env=around))
        _until(lambda: "idle" in _said(["sinfo", "-h", "-o", "%T"], around))
        _array(WARM_UP, folder, around)
        begin = time.perf_counter()
        _array(count, folder, around)
        return time.perf_counter() - begin


def _array(count: int, folder: Path, around: dict[str, str]) -> None:
    script = folder / "nothing.sh"
    script.write_text("#!/bin/sh\nexec /bin/true\n")
    _said(["sbatch", f"--array=1-{count}", "--output=/dev/null", "-n1", str(script)], around)
    # Not by sbatch --wait, which looks every few seconds only.
    _until(lambda: not _said(["squeue", "-h"], around), looks=5 * int(LONGEST_S))


def rota(count: int) -> tuple[float, float]:
    """Seconds for so many pods: submitted together, as the others submit theirs, and one by one."""
    with _folder() as folder, tasks.cluster(f"sqlite:///{folder}/store.db", "pull") as running:
        uvloop.run(tasks.finished(running, WARM_UP))
        together = uvloop.run(tasks.finished(running, count, together=True))
        uvloop.run(tasks.clean_up(running))
        return together, uvloop.run(tasks.finished(running, count))


def spawning(count: int) -> float:
    """Seconds for so many processes that nobody looks after."""
    return asyncio.run(tasks.spawned(count))


PEERS: dict[str, tuple[Callable[[int], float], Path]] = {
    "HyperQueue": (hyperqueue, PYTHON),
    "Celery with Redis": (celery, ROOT / "usr/bin/redis-server"),
    "dask.distributed": (dask, PYTHON),
    "Slurm": (slurm, ROOT / "usr/sbin/slurmctld-wlm"),
}


def measure(count: int) -> list[Result]:
    """Everybody that is there, each as tasks a second, with Rota's rate as a ratio to theirs."""
    ours, singly = (count / took for took in rota(count))
    raw = count / spawning(count)
    results = [
        rate("Rota", ours, raw, against="spawning from asyncio"),
        rate("Rota, tasks submitted one by one", singly, raw, against="spawning from asyncio"),
    ]
    for name, (run, needed) in PEERS.items():
        if not needed.exists():
            sys.stderr.write(f"{name} is not here; --install gets it\n")
            continue
        try:
            theirs = count / run(count)
        except (subprocess.SubprocessError, OSError, TimeoutError, ValueError) as problem:
            sys.stderr.write(f"{name} could not be measured: {problem}\n")
            continue
        results.append(rate(f"Rota beside {name} ({theirs:,.0f}/s)", ours, theirs, against=name))
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--install", action="store_true")
    options = parser.parse_args()
    if options.install:
        install()
    report = Report(bench="task systems", machine=this_machine(), results=measure(options.tasks))
    if options.json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    for one in report.results:
        sys.stdout.write(f"{one.name:45} {one.value:8,.0f} {one.unit}  {one.ratio or 0:6.2f} of {one.against}\n")


# --- running others -------------------------------------------------------------------------------------------------


def _program(text: str, count: int, *, folder: Path | None = None) -> float:
    with contextlib.ExitStack() as parts:
        where = folder or parts.enter_context(_folder())
        path = where / "program.py"
        path.write_text(textwrap.dedent(text.format(count=count, warm_up=WARM_UP, workers=WORKERS)))
        done = subprocess.run(
            [str(PYTHON), str(path)], cwd=where, env=_environment(), check=True, capture_output=True, timeout=LONGEST_S
        )
        return float(done.stdout.decode().rpartition("took ")[2])


def _environment() -> dict[str, str]:
    libraries = f"{LIBRARIES}:{LIBRARIES / 'slurm-wlm'}"
    # The project's own path would put its modules before theirs.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "LD_LIBRARY_PATH": libraries}


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="rota-peers-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def _running(command: list[str], *, cwd: Path, env: dict[str, str] | None = None) -> Iterator[None]:
    with subprocess.Popen(
        command, cwd=cwd, env=env or _environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


def _said(command: list[str], around: dict[str, str]) -> str:
    done = subprocess.run(
        [str(ROOT / "usr/bin" / command[0]), *command[1:]], env=around, capture_output=True, check=True, timeout=20
    )
    return done.stdout.decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    def open_() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    _until(open_)


def _until(condition: Callable[[], bool], *, looks: int = 150) -> None:
    for _ in range(looks):
        if condition():
            return
        time.sleep(0.2)  # noqa: TID251 - programs that start have no event to wait for
    raise TimeoutError("it did not come to that")


if __name__ == "__main__":
    main()
