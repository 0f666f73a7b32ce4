"""`rota up`: everything that there is, on this machine."""

import os
import shlex
from pathlib import Path
from typing import Any

import click

from rota import assembly, control_plane
from rota.cli import options, protection_options, sign_in_options
from rota.cli.commands import Command
from rota.kit import logs

_PORT = click.IntRange(0, 65535)


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
    type=_PORT,
    metavar="PORT",
    help="Serve the Kubernetes API on this loopback port; 0 for a free one.  [default: 6443, or the next free one]",
)
@click.option(
    "--http",
    "http_port",
    type=_PORT,
    metavar="PORT",
    help="Serve it on this loopback port too, without TLS: any user of this machine may do everything.",
)
@click.option(
    "--conflict-check",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Whether a binding must fit what is bound to the node now; off behaves as a stock API server.",
)
@click.option(
    "--encryption-keys",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The keys of Secrets; made if missing.  [default: encryption-keys.yaml in the data folder]",
)
@click.option(
    "--authority",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Use ca.crt and ca.key of this folder (and sa.key for tokens) instead of what the first start makes.",
)
@sign_in_options.sign_in_options
@protection_options.protection_options
def command(
    *,
    workers: int,
    data: Path,
    store_url: str | None,
    port: int | None,
    http_port: int | None,
    conflict_check: str,
    encryption_keys: Path | None,
    authority: Path | None,
    token_file: Path | None,
    audit_log: Path | None,
    audit_policy: Path | None,
    max_requests: int,
    request_timeout: float,
    requests_per_second: float | None,
    **oidc: Any,
) -> None:
    """Start Rota on this machine and run until interrupted.

    The API is served over TLS, to those who can prove who they are. The kubeconfig of its administrator is written into
    the data folder, readable by its owner only.
    """
    logs.configure(level="warning")
    if audit_policy is not None and audit_log is None:
        raise click.UsageError("--audit-policy goes with --audit-log")
    folder = data.absolute()
    # A store that others may use as well: their workers must not have the same names.
    prefix = None if store_url else "worker-"
    if not store_url:
        store_url = options.sqlite_url(options.made_folder(folder) / "rota.db")
    settings = control_plane.Settings(
        data=folder,
        workers=workers,
        worker_prefix=prefix,
        port=port,
        http_port=http_port,
        conflict_check=conflict_check == "on",
        encryption_keys=encryption_keys,
        authority=authority,
        token_file=token_file,
        providers=sign_in_options.providers(oidc),
        audit_log=audit_log,
        audit_policy=audit_policy,
        limits=protection_options.limits(
            max_requests=max_requests, request_timeout=request_timeout, requests_per_second=requests_per_second
        ),
    )
    assembly.run(assembly.run_local(store_url, settings, ready=_say_ready))
    click.echo("Rota has stopped.")


def _say_ready(facts: dict[str, str]) -> None:
    for name, fact in facts.items():
        click.echo(f"{name:>9}  {fact}")
    fate = "goes with it" if facts["store"].startswith("memory:") else "stays"
    click.echo(f"Rota is up. Ctrl-C stops it; the data {fate}.")
    click.echo(f"Try: export KUBECONFIG={shlex.quote(facts['config'])}")
    click.echo("     kubectl get nodes")
    if "workers" in facts:
        click.echo("     rota run -- echo hi")
