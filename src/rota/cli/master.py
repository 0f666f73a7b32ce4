"""`rota master`: run one of several masters on a shared store."""

import os
import shlex
from pathlib import Path
from typing import Any

import click

from rota.cli import master_options, options
from rota.cli.command_types import Command
from rota.kit import logs


@click.command(
    "master",
    cls=Command,
    examples=[
        (
            "rota master --store postgresql://rota@db/rota --host 0.0.0.0",
            "a master that other machines can reach; start further masters with the same store",
        ),
        (
            "rota master --store etcd://10.0.0.1:2379 --encryption-keys keys.yaml",
            "a further master, with a copy of the first master's keys",
        ),
        ("rota master --store sqlite:///srv/rota.db --workers 2", "a single master with two workers on this machine"),
        ("rota master --store $URL --advertise api.example.com", "under a name that clients use"),
    ],
)
@click.option(
    "--store",
    "store_url",
    metavar="URL",
    envvar="ROTA_STORE",
    show_envvar=True,
    required=True,
    help="The shared store: postgresql://..., etcd://host:port[,host:port], or on one machine sqlite:///path.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=options.data_folder,
    show_default="$ROTA_HOME, or the platform's data folder",
    help="Folder for this master's files; created if missing.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Serve the Kubernetes API on this address; 0.0.0.0 for all addresses of the machine.",
)
@click.option(
    "--port",
    type=master_options.PORT,
    metavar="PORT",
    help="Port of the API; 0 for a free one.  [default: 6443, or the next free one]",
)
@click.option(
    "--advertise",
    multiple=True,
    metavar="NAME",
    help="Name or address for clients, added to the certificate; the first is in the kubeconfig; repeatable.",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of workers to run on this machine.",
)
@options.task_user_options
@master_options.master_options
def command(
    *,
    store_url: str,
    data: Path,
    host: str,
    port: int | None,
    advertise: tuple[str, ...],
    workers: int,
    **served: Any,
) -> None:
    """Run a master (API server, scheduler and controllers) until interrupted.

    Any number of masters may share a store. Each serves the API; one at a time schedules and one runs the controllers.
    If the leader fails, another master takes over within seconds. All masters need the same encryption keys: copy the
    file of the first master to the others.
    """
    from rota import assembly, control_plane  # noqa: PLC0415 - not needed to refuse an option

    logs.configure(level="warning")
    folder = options.made_folder(data.absolute())
    settings = master_options.settings(
        served,
        data=folder,
        workers=workers,
        host=host,
        port=port,
        advertise=advertise,
        # a scheduler in this process dispatches pods to the workers in it directly
        scheduler_apart=not workers and len(os.sched_getaffinity(0)) > 1,
    )
    keys = settings.encryption_keys or folder / control_plane.ENCRYPTION_KEYS

    def say_ready(facts: dict[str, str]) -> None:
        for name, fact in {**facts, "keys": str(keys)}.items():
            click.echo(f"{name:>9}  {fact}")
        click.echo("This master is up. Ctrl-C stops it; the data stays.")
        click.echo(f"To add a worker:  KUBECONFIG={shlex.quote(facts['config'])} rota token create --join-command")
        click.echo("                  prints what to run there.")
        click.echo("To add a master:  copy the keys to it, and start it there with the same --store and")
        click.echo("                  --encryption-keys FILE")

    assembly.run(assembly.run_local(store_url, settings, ready=say_ready))
    click.echo("The master has stopped.")
