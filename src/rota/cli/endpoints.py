"""The options that select an API server, with kubectl's names, and the endpoint that they select.

The kubeconfig code is imported only when it is needed, so a mistyped option is refused quickly.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.cli import options
from rota.kit import errors

if TYPE_CHECKING:
    from rota.client.endpoints import Endpoint

_F = TypeVar("_F", bound=Callable[..., Any])


def server_options(command: _F, *, default: str = "$KUBECONFIG, or ~/.kube/config") -> _F:
    """Add `--kubeconfig FILE`, `--context NAME` and `--server URL`; pass their values to `chosen`.

    `default` is the text in the help about the default kubeconfig.
    """
    for option in (
        click.option(
            "--server",
            metavar="URL[,URL...]",
            help="URL of an unauthenticated API server; further URLs are failovers.",
        ),
        click.option("--context", metavar="NAME", default="", help="The kubeconfig context."),
        click.option(
            "--kubeconfig",
            "kubeconfig_file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help=f"The kubeconfig file.  [default: {default}]",
        ),
    ):
        command = option(command)
    return command


def chosen(*, kubeconfig_file: Path | None, context: str, server: str | None) -> "Endpoint":
    """The server that the options select: by URL, by kubeconfig, or the cluster in which this process is a pod."""
    from rota.client import kubeconfig  # noqa: PLC0415
    from rota.client.endpoints import Endpoint  # noqa: PLC0415
    from rota.kit import system  # noqa: PLC0415

    if server and kubeconfig_file is not None:
        raise click.UsageError("give either --server or --kubeconfig")
    if server:
        first, *others = server.split(",")
        return Endpoint(server=first, fallbacks=tuple(others))
    clock = system.SystemClock()
    if kubeconfig_file is None and "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
        return kubeconfig.in_cluster(os.environ, clock=clock)
    path = kubeconfig_file or kubeconfig.default_path(os.environ)
    own = options.data_folder() / "kubeconfig"
    if kubeconfig_file is None and "KUBECONFIG" not in os.environ and not path.exists() and own.exists():
        path = own  # of `rota up` on this machine
    if not path.exists():
        remedy = "name one with --kubeconfig, or a --server; `rota up` starts a cluster on this machine"
        raise errors.UserError(f"there is no kubeconfig at {path}", remedy)
    return kubeconfig.load(path, clock=clock, context=context)


def own_options(command: _F) -> _F:
    """The same options for commands on the cluster of this machine; pass their values to `own_cluster`."""
    return server_options(command, default="$KUBECONFIG, or that of `rota up` on this machine")


def own_cluster(*, kubeconfig_file: Path | None, context: str, server: str | None) -> "Endpoint":
    """The server that the options or $KUBECONFIG name, or else that of `rota up` on this machine.

    Never ~/.kube/config: a command for this machine must not change a cluster that the user did not name.
    """
    if kubeconfig_file is None and not server and "KUBECONFIG" not in os.environ:
        kubeconfig_file = options.data_folder() / "kubeconfig"
        if not kubeconfig_file.exists():
            raise errors.UserError(
                f"there is no cluster of this user: no {kubeconfig_file}", "run 'rota up', or set KUBECONFIG"
            )
    return chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)


def nearest_options(command: _F) -> _F:
    """The same options for commands that only read and work with any cluster; pass their values to `nearest`."""
    return server_options(command, default="$KUBECONFIG, that of `rota up` on this machine, or ~/.kube/config")


def nearest(*, kubeconfig_file: Path | None, context: str, server: str | None) -> "Endpoint":
    """The server that the options or $KUBECONFIG name, or that of `rota up` on this machine, or else kubectl's."""
    own = options.data_folder() / "kubeconfig"
    if kubeconfig_file is None and not server and "KUBECONFIG" not in os.environ and own.exists():
        kubeconfig_file = own
    return chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
