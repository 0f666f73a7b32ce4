"""The options that everything with an API server has: `rota up` and `rota master`."""

import os
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.cli import protection_options, sign_in_options
from rota.cli.scheduler_options import SchedulerFiles, file_options

if TYPE_CHECKING:
    from rota.control_plane import Settings

_F = TypeVar("_F", bound=Callable[..., Any])
#: The low 256 addresses are for those who ask for one by name.
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
    "controllers",
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


def master_options(command: _F) -> _F:
    """The options; give what comes of them to `settings`."""
    # Options stand in the help in the order in which they are put on, from the last.
    command = file_options("Schedule by this KubeSchedulerConfiguration; changes take effect.")(command)
    command = sign_in_options.sign_in_options(protection_options.protection_options(command))
    for option in (
        click.option(
            "--controllers",
            metavar="LIST",
            default="*",
            show_default="all",
            help="Which controllers to run: names with commas; * is all of them, -jobs leaves one out, '' is none.",
        ),
        click.option(
            "--scheduler",
            type=click.Choice(["on", "off"]),
            default="on",
            show_default=True,
            help="Whether to decide here where pods go; off leaves that to rota scheduler or others.",
        ),
        click.option(
            "--ca-dir",
            "authority",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Use ca.crt and ca.key of this folder (and sa.key for tokens) instead of what the first start makes.",
        ),
        click.option(
            "--encryption-keys",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="The keys of Secrets; made if missing.  [default: encryption-keys.yaml in the data folder]",
        ),
        click.option(
            "--dispatch",
            type=click.Choice(["push", "pull"]),
            default="push",
            show_default=True,
            help="Whether workers are called with their tasks, or find them by their watches alone; "
            "a task's annotation rota.dev/dispatch goes before this.",
        ),
        click.option(
            "--unenforced",
            type=click.Choice(["refuse", "warn"]),
            default="refuse",
            show_default=True,
            help="What becomes of webhook configurations, admission policies and pod security labels that promise "
            "to refuse requests, which this server does not do.",
        ),
        click.option(
            "--service-network",
            metavar="CIDR",
            default="127.64.0.0/10",
            show_default=True,
            callback=_network,
            help="Of which services get their addresses; workers serve those on loopback.",
        ),
        click.option(
            "--conflict-check",
            type=click.Choice(["on", "off"]),
            default="on",
            show_default=True,
            help="Whether a binding must fit what is bound to the node now; off behaves as a stock API server.",
        ),
    ):
        command = option(command)
    return command


def settings(options: dict[str, Any], **more: Any) -> "Settings":
    """A master's settings from these options, and whatever else a command decides."""
    from rota.apiserver.admission.unenforced import Mode  # noqa: PLC0415 - servers are not needed to refuse an option
    from rota.control_plane import Settings  # noqa: PLC0415

    if options["audit_policy"] is not None and options["audit_log"] is None:
        raise click.UsageError("--audit-policy goes with --audit-log")
    return Settings(
        conflict_check=options["conflict_check"] == "on",
        unenforced=Mode(options["unenforced"]),
        scheduler=options["scheduler"] == "on",
        scheduler_config=SchedulerFiles(options["scheduler_config"], options["plugins"]).source(),
        limits=protection_options.limits(**{name: options[name] for name in _LIMITS}),
        providers=sign_in_options.providers(options),
        **{name: options[name] for name in _AS_IT_IS},
        # Of two processes on one core each would wait for the other.
        workers_apart=len(os.sched_getaffinity(0)) > 1,
        **more,
    )
