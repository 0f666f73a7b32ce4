"""`rota token`: tokens that new workers join a cluster with."""

from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command, CommandGroup


@click.group(
    "token",
    cls=CommandGroup,
    examples=[
        ("rota token create", "a token for the next 24 hours"),
        ("rota token list", "which ones there are, and until when"),
        ("rota token delete abcdef", "no more workers join with this one"),
    ],
)
def command() -> None:
    """Make, list and take back the tokens that new workers join a cluster with.

    The cluster is the one that `rota up` runs on this machine, or that of $KUBECONFIG, or of the options.
    """


@command.command(
    "create",
    cls=Command,
    examples=[
        ("rota token create", "a token for the next 24 hours"),
        ("rota token create --ttl 30m --description 'rack 7'", "a short one, with a word about what it is for"),
        ("TOKEN=$(rota token create)", "in a script: the token is all that is printed"),
        ("rota token create --join-command", "the command that a new worker runs, and nothing else"),
    ],
)
@click.option(
    "--ttl",
    type=options.Duration(nothing="no end"),
    default="24h",
    show_default=True,
    help="How long it is good for; 0: no end.",
)
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@click.option("--join-command", is_flag=True, help="Print the command that a new worker runs.")
@output.json_option
@endpoints.own_options
def create(*, ttl: float, description: str, join_command: bool, as_json: bool, **server: Any) -> None:
    """Make a token and print it; it is not shown again. On a terminal, also how a worker joins with it."""
    from rota.cli.commands import join_tokens as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.create(ttl=ttl, description=description, join_command=join_command, as_json=as_json, **server)


@command.command("list", cls=Command, examples=[("rota token list", "which tokens there are, and until when")])
@output.json_option
@endpoints.own_options
def list_(*, as_json: bool, **server: Any) -> None:
    """List tokens, without their secret halves."""
    from rota.cli.commands import join_tokens as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.list_(as_json=as_json, **server)


@command.command(
    "delete",
    cls=Command,
    examples=[
        ("rota token delete abcdef", "no more workers join with it; those that have joined stay"),
        ("rota token delete abcdef ghijkl", "several"),
    ],
)
@click.argument("tokens", metavar="ID...", nargs=-1, required=True)
@output.json_option
@endpoints.own_options
def delete(*, tokens: tuple[str, ...], as_json: bool, **server: Any) -> None:
    """Take tokens back, by their ids or whole."""
    from rota.cli.commands import join_tokens as acts  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    acts.delete(tokens=tokens, as_json=as_json, **server)
