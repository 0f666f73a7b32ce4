"""`rota queue`: make, list, open and close queues."""

from typing import Any

import click

from rota.cli import endpoints, output
from rota.cli.command_types import Command, CommandGroup


@click.group(
    "queue",
    cls=CommandGroup,
    examples=[
        ("rota queue create night --weight 2", "a queue with twice the share of others"),
        ("rota queue list", "all queues with their groups and resources"),
        ("rota queue operate night --action close", "let no more jobs in"),
    ],
)
def command() -> None:
    """Make, list, open and close the queues of batch jobs."""


def _amounts(command: Any) -> Any:
    """The options of resources, in the order of help."""
    for option, meaning in (
        ("--guarantee", "Resources that no other queue gets."),
        ("--deserved", "Resources that it gets back from others when it needs them."),
        ("--capability", "Resources that it gets at most."),
    ):
        command = click.option(option, default="", metavar="LIST", help=f"{meaning} cpu=4,memory=8Gi.")(command)
    return command


@command.command(
    "create",
    cls=Command,
    examples=[
        ("rota queue create night --weight 2", "a queue with twice the share of others"),
        ("rota queue create team --deserved cpu=8 --capability cpu=16", "a queue with limits"),
        ("rota queue create team-a --parent team", "a queue below another"),
    ],
)
@click.argument("name", metavar="QUEUE")
@click.option("-w", "--weight", type=click.IntRange(1), default=1, show_default=True, help="Its share beside others.")
@click.option("--parent", default="", metavar="QUEUE", help="The queue above it.  [default: root]")
@click.option("--priority", type=int, default=None, help="Queues of higher priority are served first.")
@click.option("--reclaimable/--not-reclaimable", default=True, help="Whether others get back what it borrowed.")
@_amounts
@output.json_option
@endpoints.own_options
def create(**given: Any) -> None:
    """Create a queue."""
    from rota.cli.commands import batch_queues  # noqa: PLC0415 - not needed to refuse an option

    batch_queues.create(**given)


@command.command("list", cls=Command, examples=[("rota queue list", "all queues")])
@output.json_option
@endpoints.nearest_options
def list_(**given: Any) -> None:
    """List queues with their state, groups and resources."""
    from rota.cli.commands import batch_queues as commands_batch_queues  # noqa: PLC0415 - as above

    commands_batch_queues.list_(**given)


@command.command("get", cls=Command, examples=[("rota queue get night", "a queue, and what waits in it for what")])
@click.argument("name", metavar="QUEUE")
@output.json_option
@endpoints.nearest_options
def get(**given: Any) -> None:
    """Show a queue: its resources, and its groups with the reasons why they wait."""
    from rota.cli.commands import batch_queues as queues  # noqa: PLC0415 - as above

    queues.get(**given)


@command.command(
    "operate",
    cls=Command,
    examples=[
        ("rota queue operate night --action close", "let no more jobs in; those inside go on"),
        ("rota queue operate night --action update --weight 3", "change its share"),
    ],
)
@click.argument("name", metavar="QUEUE")
@click.option("-a", "--action", type=click.Choice(["open", "close", "update"]), required=True, help="What to do.")
@click.option("-w", "--weight", type=click.IntRange(1), default=None, help="Its share beside others, for update.")
@endpoints.own_options
def operate(**given: Any) -> None:
    """Open or close a queue, or change its weight."""
    from rota.cli.commands import batch_queues as queues  # noqa: PLC0415 - as above

    queues.operate(**given)


@command.command("delete", cls=Command, examples=[("rota queue delete night", "delete a closed queue")])
@click.argument("name", metavar="QUEUE")
@endpoints.own_options
def delete(**given: Any) -> None:
    """Delete a queue that is closed and has no queues below it."""
    from rota.cli.commands import batch_queues as queues  # noqa: PLC0415 - as above

    queues.delete(**given)
