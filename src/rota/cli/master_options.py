"""The options of the commands that run an API server: `rota up` and `rota master`."""

import os
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.cli import protection_options, sign_in_options
from rota.cli.scheduler_options import SchedulerFiles, batch_option, file_options

if TYPE_CHECKING:
    from rota.control_plane import Settings

_F = TypeVar("_F", bound=Callable[..., Any])
#: Prefix length of the smallest service network; its low 256 addresses are for Services that name their address.
_NARROWEST = 22
PORT = click.IntRange(0, 65535)
_AS_IT_IS = (
    "dispatch",
    "service_network",
    "encryption_keys",
    "authority",
    "token_file",
    "audit_log",
    "audit_policy",
    "admission_config",
    "controllers",
    "schedulers",
    "run_as",
    "allow_root",
)
_LIMITS = ("max_requests", "request_timeout", "requests_per_second")


def _network(_: click.Context, __: click.Parameter, given: str) -> IPv4Network:
    try:
        found = IPv4Network(given)
    except ValueError as problem:
        raise click.BadParameter(f"{problem}; write a network such as 127.64.0.0/10") from None
    if found.prefixlen > _NARROWEST:
        raise click.BadParameter(f"{given} has too few addresses: /{_NARROWEST} is the narrowest")
    return found


def place_options(
    noun: str, variable: str, *, api: str = "the API", default: Callable[[], Path] | None = None
) -> Callable[[_F], _F]:
    """Add `--data`, `--store` and `--port` for a control plane on this machine; `noun` is what it is of.

    Without a `default` the data folder has to be named.
    """
    data: dict[str, Any] = {"required": True}
    if default is not None:
        data = {"default": default, "show_default": "$ROTA_HOME, or the platform's data folder"}

    def decorated(command: _F) -> _F:
        for option in (
            click.option(
                "--port",
                type=PORT,
                metavar="PORT",
                help=f"Serve {api} on this loopback port; 0 for a free one.  [default: 6443, or the next free one]",
            ),
            click.option(
                "--store",
                "store_url",
                metavar="URL",
                envvar=variable,
                show_envvar=True,
                help=f"Store of the {noun}, instead of a SQLite file in the data folder.",
            ),
            click.option(
                "--data",
                type=click.Path(path_type=Path, file_okay=False),
                help=f"Folder for the {noun}'s data; created if missing.",
                **data,
            ),
        ):
            command = option(command)
        return command

    return decorated


def master_options(command: _F) -> _F:
    """Add the options; pass their values to `settings`."""
    # The help lists options in the reverse order of their decorators.
    command = batch_option(command)
    command = file_options("Schedule by this KubeSchedulerConfiguration; reloaded when it changes.")(command)
    command = sign_in_options.sign_in_options(protection_options.protection_options(command))
    for option in (
        click.option(
            "--controllers",
            metavar="LIST",
            default="*",
            show_default="all",
            help="Controllers to run: '*' (all), '*,-jobs' (all but jobs), 'jobs,deployments' (only these), '' (none).",
        ),
        click.option(
            "--scheduler",
            type=click.Choice(["on", "off"]),
            default="on",
            show_default=True,
            help="Whether to run the scheduler; with off, run rota scheduler or another scheduler.",
        ),
        click.option(
            "--schedulers",
            type=click.IntRange(1, 64),
            default=1,
            show_default=True,
            metavar="N",
            help="Number of schedulers that share the pods, each in a process; 1 for all masters, or more for all.",
        ),
        click.option(
            "--ca-dir",
            "authority",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Folder with ca.crt, ca.key and optionally sa.key, instead of a generated CA.",
        ),
        click.option(
            "--encryption-keys",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Encryption keys of Secrets; created if missing.  [default: encryption-keys.yaml in the data folder]",
        ),
        click.option(
            "--dispatch",
            type=click.Choice(["push", "pull"]),
            default="push",
            show_default=True,
            help="push: the scheduler sends bound pods to workers; pull: workers find them by their watches. "
            "A pod's annotation rota.dev/dispatch takes precedence.",
        ),
        click.option(
            "--service-network",
            metavar="CIDR",
            default="127.64.0.0/10",
            show_default=True,
            callback=_network,
            help="Network for the addresses of Services; workers serve them on loopback.",
        ),
        click.option(
            "--conflict-check",
            type=click.Choice(["on", "off"]),
            default="on",
            show_default=True,
            help="Whether the API server refuses bindings that do not fit the node; off behaves as stock Kubernetes.",
        ),
    ):
        command = option(command)
    return command


def settings(options: dict[str, Any], **more: Any) -> "Settings":
    """A master's settings from these options and those that the command adds."""
    from rota.control_plane import Settings  # noqa: PLC0415 - not needed to refuse an option

    if options["audit_policy"] is not None and options["audit_log"] is None:
        raise click.UsageError("--audit-policy goes with --audit-log")
    return Settings(
        conflict_check=options["conflict_check"] == "on",
        scheduler=options["scheduler"] == "on",
        scheduler_config=SchedulerFiles(
            options["scheduler_config"], options["plugins"], options["batch_config"]
        ).source(),
        limits=protection_options.limits(**{name: options[name] for name in _LIMITS}),
        providers=sign_in_options.providers(options),
        **{name: options[name] for name in _AS_IT_IS},
        # On one core, a second process would only wait for the first.
        workers_apart=len(os.sched_getaffinity(0)) > 1,
        **more,
    )
