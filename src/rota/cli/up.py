"""`rota up`: everything that there is, on this machine."""

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


def _default_workers() -> int:
    """As many as leave each of them two cores, so that tasks of some size find room."""
    return max(1, min(3, len(os.sched_getaffinity(0)) // 2))


@click.command(
    "up",
    cls=Command,
    examples=[
        ("rota up", "start; Ctrl-C stops it, the data stays"),
        ("rota up --data ./cluster", "keep the data in a folder of your choice"),
        ("rota up --port 6443", "fail if that port is taken, instead of using the next"),
        ("rota up --http 8001", "also serve the API without TLS, to kubectl -s http://127.0.0.1:8001"),
    ],
)
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    default=_default_workers,
    show_default="1 to 3, one for every two cores",
    metavar="N",
    help="How many workers share this machine.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=options.data_folder,
    show_default="$ROTA_HOME, or the platform's data folder",
    help="Where the cluster's data lies; made if missing.",
)
@click.option(
    "--store",
    "store_url",
    metavar="URL",
    envvar="ROTA_STORE",
    show_envvar=True,
    help="Use this store instead of a file in the data folder.",
)
@click.option(
    "--port",
    type=master_options.PORT,
    metavar="PORT",
    help="Serve the Kubernetes API on this loopback port; 0 for a free one.  [default: 6443, or the next free one]",
)
@click.option(
    "--http",
    "http_port",
    type=master_options.PORT,
    metavar="PORT",
    help="Serve it on this loopback port too, without TLS: any user of this machine may do everything.",
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
    **served: Any,
) -> None:
    """Start Rota on this machine and run until interrupted.

    The API is served over TLS, to those who can prove who they are. The kubeconfig of its administrator is written into
    the data folder, readable by its owner only.
    """
    from rota import assembly  # noqa: PLC0415 - servers and databases are not needed to refuse an option
    from rota.cli.commands import surviving_tasks  # noqa: PLC0415

    logs.configure(level="warning")
    folder = data.absolute()
    # A store that others may use as well: their workers must not have the same names.
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
        alone=alone,
    )
    lasting = surviving_tasks.SurvivingTasks()

    def ready(facts: dict[str, str]) -> None:
        _say_ready(facts)
        lasting.note(facts)

    assembly.run(assembly.run_local(store_url, settings, ready=ready, leaving=lasting.look))
    click.echo(f"Rota has stopped.{lasting.told()}")


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
    click.echo("     kubectl get nodes")


def typed() -> str:
    """How this program is called from a shell: by its path if the shell would not find it by its name."""
    program = Path(sys.argv[0])
    if shutil.which("rota") is not None or program.name != "rota" or not os.access(program, os.X_OK):
        return "rota"
    return shlex.quote(str(program))
