"""`rota exec`: run a command in a container of a running pod."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


@click.command(
    "exec",
    cls=Command,
    examples=[
        ("rota exec web -- ps aux", "in the task's container; exits with the command's code"),
        ("rota exec -it web -- sh", "a shell in the container, on this terminal"),
        ("rota exec -i web -- tee data.csv < data.csv", "with standard input"),
    ],
)
@click.argument("name", metavar="NAME", shell_complete=name_completion.complete_names("pods"))
@click.argument("command_line", metavar="COMMAND [ARG]...", nargs=-1, required=True, type=click.UNPROCESSED)
@options.namespace_option
@options.container_option
@click.option("-i", "--stdin", is_flag=True, help="Forward standard input.")
@click.option("-t", "--tty", is_flag=True, help="Allocate a terminal; implies --stdin.")
@endpoints.own_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Run COMMAND in a container of a running pod and exit with its code."""
    from rota.cli.commands import remote_exec  # noqa: PLC0415 - not needed to refuse an option

    ctx.exit(remote_exec.execute(**given))
