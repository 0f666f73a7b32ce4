"""`rota delete`: objects, and with them what they own."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


@click.command(
    "delete",
    cls=Command,
    examples=[
        ("rota delete pod web", "end a task: TERM, then KILL when its grace period is over"),
        ("rota delete pod web --now", "with one second of grace"),
        ("rota delete jobs -l team=a", "all with a label, and their pods"),
        ("rota delete -f job.yaml", "what a file describes"),
    ],
)
@click.argument("words", metavar="[KIND NAME...]", nargs=-1, shell_complete=name_completion.complete_kind_and_names)
@click.option(
    "-f",
    "--filename",
    "sources",
    multiple=True,
    metavar="FILE",
    help="What a file or folder describes; - for standard input.",
)
@options.namespace_option
@options.selector_option
@click.option("--all", "everything", is_flag=True, help="All of that kind in the namespace.")
@click.option(
    "--grace-period", type=click.IntRange(0), metavar="SECONDS", help="How long pods get to end.  [default: their own]"
)
@click.option("--now", is_flag=True, help="The same as --grace-period 1.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Whether to wait until they are gone.")
@click.option(
    "--timeout",
    type=options.Duration(nothing="no limit"),
    default="0",
    show_default="no limit",
    help="How long to wait.",
)
@click.option("--ignore-not-found", is_flag=True, help="An object that is not there is no error.")
@options.dry_run_option
@endpoints.own_options
def command(*, now: bool, grace_period: int | None, **given: Any) -> None:
    """Delete objects by name, by label or by the files that describe them, and say so.

    What they own goes with them. A pod gets a signal, then its grace period, and is gone when its processes are.
    """
    if now and grace_period is not None:
        raise click.UsageError("give either --now or --grace-period")
    from rota.cli.commands import deletion  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    deletion.delete(grace_period=1 if now else grace_period, **given)
