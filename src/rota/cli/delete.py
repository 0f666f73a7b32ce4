"""`rota delete`: delete objects and their dependents."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


@click.command(
    "delete",
    cls=Command,
    examples=[
        ("rota delete pod web", "terminate a task: SIGTERM, and SIGKILL after its grace period"),
        ("rota delete pod web --now", "with a grace period of one second"),
        ("rota delete jobs -l team=a", "all jobs with a label, and their pods"),
        ("rota delete -f job.yaml", "the objects of a file"),
    ],
)
@click.argument("words", metavar="[KIND NAME...]", nargs=-1, shell_complete=name_completion.complete_kind_and_names)
@click.option(
    "-f",
    "--filename",
    "sources",
    multiple=True,
    metavar="FILE",
    help="Delete the objects of a file or folder; - for standard input.",
)
@options.namespace_option
@options.selector_option
@click.option("--all", "everything", is_flag=True, help="Delete all objects of the kind in the namespace.")
@click.option(
    "--grace-period", type=click.IntRange(0), metavar="SECONDS", help="Grace period of pods.  [default: the pod's own]"
)
@click.option("--now", is_flag=True, help="The same as --grace-period 1.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the objects are gone.")
@click.option(
    "--timeout",
    type=options.Duration(nothing="no limit"),
    default="0",
    show_default="no limit",
    help="Maximum time to wait.",
)
@click.option("--ignore-not-found", is_flag=True, help="Ignore objects that do not exist.")
@options.dry_run_option
@endpoints.own_options
def command(*, now: bool, grace_period: int | None, **given: Any) -> None:
    """Delete objects by name, by label or by file.

    Their dependents are deleted too. A pod is gone when its processes have ended.
    """
    if now and grace_period is not None:
        raise click.UsageError("give either --now or --grace-period")
    from rota.cli.commands import deletion  # noqa: PLC0415 - not needed to refuse an option

    deletion.delete(grace_period=1 if now else grace_period, **given)
