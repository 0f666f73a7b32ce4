"""`rota up`: run a cluster on this machine: one master and its workers."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from rota.cli import master_options, options
from rota.cli.command_types import Command
from rota.kit import logs

#: Tried in this order; after them, any free one is taken.
_DASHBOARD_PORTS = range(6480, 6580)


def _default_workers() -> int:
    """One worker for every two cores, 1 to 3."""
    return max(1, min(3, len(os.sched_getaffinity(0)) // 2))


@click.command(
    "up",
    cls=Command,
    examples=[
        ("rota up", "start a cluster; Ctrl-C stops it, the data stays"),
        ("rota up --data ./cluster", "keep the data in this folder"),
        ("rota up --port 6443", "fail if the port is in use, instead of using the next one"),
        ("rota up --http 8001", "also serve the API without TLS, for kubectl -s http://127.0.0.1:8001"),
    ],
)
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    default=_default_workers,
    show_default="1 to 3, one for every two cores",
    metavar="N",
    help="Number of workers to run on this machine.",
)
@master_options.place_options("cluster", "ROTA_STORE", api="the Kubernetes API", default=options.data_folder)
@click.option(
    "--http",
    "http_port",
    type=master_options.PORT,
    metavar="PORT",
    help="Also serve the API on this loopback port without TLS: every user of this machine is administrator.",
)
@click.option(
    "--dashboard-port",
    type=master_options.PORT,
    metavar="PORT",
    help="Serve the dashboard on this loopback port. [default: 6480, or the next free one]",
)
@options.task_user_options
@master_options.master_options
def command(
    *,
    workers: int,
    data: Path,
    store_url: str | None,
    port: int | None,
    http_port: int | None,
    dashboard_port: int | None,
    **served: Any,
) -> None:
    """Run a cluster on this machine until interrupted: API server, scheduler, controllers and workers.

    The API is served over TLS to authenticated clients. The administrator's kubeconfig is written to the data folder,
    readable by its owner only.
    """
    from rota import assembly  # noqa: PLC0415 - not needed to refuse an option
    from rota.cli.commands import surviving_tasks  # noqa: PLC0415

    logs.configure(level="warning")
    folder = data.absolute()
    # Other masters may use a shared store: their workers must not have the same names.
    prefix, alone = (None, False) if store_url else ("worker-", True)
    if not store_url:
        store_url = options.sqlite_url(options.made_folder(folder) / "rota.db")
    settings = master_options.settings(
        served,
        data=folder,
        workers=workers,
        worker_prefix=prefix,
        port=port,
        http_port=http_port,
        dashboard_ports=(*_DASHBOARD_PORTS, 0) if dashboard_port is None else (dashboard_port,),
        alone=alone,
    )
    surviving = surviving_tasks.SurvivingTasks()

    def ready(facts: dict[str, str]) -> None:
        _say_ready(facts)
        surviving.note(facts)

    assembly.run(assembly.run_local(store_url, settings, ready=ready, leaving=surviving.look))
    click.echo(f"Rota has stopped.{surviving.text()}")


def _say_ready(facts: dict[str, str]) -> None:
    for name, fact in facts.items():
        click.echo(f"{name:>9}  {fact}")
    fate = "goes with it" if facts["store"].startswith("memory:") else "stays"
    click.echo(f"Rota is up. Ctrl-C stops it; the data {fate}.")
    click.echo(f"Try: export KUBECONFIG={shlex.quote(facts['config'])}")
    rota = typed()
    if "workers" in facts:
        click.echo(f"     {rota} run -- echo hi")
    click.echo(f"     {rota} status")
    click.echo(f"     {rota} dashboard")
    click.echo("     kubectl get nodes")


def typed() -> str:
    """How a user calls this program: by its path if `rota` is not on the PATH."""
    program = Path(sys.argv[0])
    if shutil.which("rota") is not None or program.name != "rota" or not os.access(program, os.X_OK):
        return "rota"
    return shlex.quote(str(program))
