"""`rota token`: join tokens of workers."""

from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command, CommandGroup


@click.group(
    "token",
    cls=CommandGroup,
    examples=[
        ("rota token create", "a token that is valid for 24 hours"),
        ("rota token list", "list tokens with their expiry"),
        ("rota token delete abcdef", "revoke a token"),
    ],
)
def command() -> None:
    """Create, list and delete the tokens that new workers join with.

    The default cluster is that of $KUBECONFIG, or of `rota up` on this machine.
    """


@command.command(
    "create",
    cls=Command,
    examples=[
        ("rota token create", "a token that is valid for 24 hours"),
        ("rota token create --ttl 30m --description 'rack 7'", "for 30 minutes, with a description"),
        ("TOKEN=$(rota token create)", "in a script: only the token is printed"),
        ("rota token create --join-command", "print only the command to run on the new worker"),
    ],
)
@click.option(
    "--ttl",
    type=options.Duration(nothing="no end"),
    default="24h",
    show_default=True,
    help="Validity; 0: no expiry.",
)
@click.option("--description", default="", metavar="TEXT", help="Description of the token.")
@click.option("--join-command", is_flag=True, help="Print the command to run on the new worker.")
@output.json_option
@endpoints.own_options
def create(*, ttl: float, description: str, join_command: bool, as_json: bool, **server: Any) -> None:
    """Create a token and print it; it is not shown again. On a terminal, also print how a worker joins with it."""
    from rota.cli.commands import join_tokens as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.create(ttl=ttl, description=description, join_command=join_command, as_json=as_json, **server)


@command.command("list", cls=Command, examples=[("rota token list", "all tokens with their expiry")])
@output.json_option
@endpoints.own_options
def list_(*, as_json: bool, **server: Any) -> None:
    """List tokens without their secrets."""
    from rota.cli.commands import join_tokens as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.list_(as_json=as_json, **server)


@command.command(
    "delete",
    cls=Command,
    examples=[
        ("rota token delete abcdef", "no worker can join with it any more; joined workers stay"),
        ("rota token delete abcdef ghijkl", "several tokens"),
    ],
)
@click.argument("tokens", metavar="ID...", nargs=-1, required=True)
@output.json_option
@endpoints.own_options
def delete(*, tokens: tuple[str, ...], as_json: bool, **server: Any) -> None:
    """Delete tokens, by ID or full token."""
    from rota.cli.commands import join_tokens as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.delete(tokens=tokens, as_json=as_json, **server)
