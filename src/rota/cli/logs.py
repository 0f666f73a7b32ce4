"""`rota logs`: print the output of pods."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


def _joined(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> str:
    """Join a kind and a name that are given as two arguments."""
    del param
    if len(words) > 2:
        raise click.UsageError(f"one at a time, not {len(words)}; several with -l", ctx)
    return "/".join(words)


@click.command(
    "logs",
    cls=Command,
    examples=[
        ("rota logs web", "the output of a task so far"),
        ("rota logs -f web", "follow the output until the task ends"),
        ("rota logs -f job/nightly", "all pods of a job, each line prefixed with its pod"),
        ("rota logs --previous web", "the output before the last restart"),
        ("rota logs -l app=web --tail 20 --since 5m", "the latest lines of all pods with a label"),
    ],
)
@click.argument(
    "name", metavar="[KIND/]NAME", nargs=-1, callback=_joined, shell_complete=name_completion.complete_names("pods")
)
@options.namespace_option
@options.selector_option
@options.container_option
@click.option("--all-containers", is_flag=True, help="All containers, init containers included.")
@click.option("-f", "--follow", is_flag=True, help="Wait for the start, and print new lines until the end.")
@click.option("-p", "--previous", is_flag=True, help="The output before the last restart.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Number of latest lines to print.")
@click.option("--since", type=options.Duration(), metavar="DURATION", help="Only lines that are newer: 30s, 5m, 2h.")
@click.option("--timestamps", is_flag=True, help="Prefix each line with its time.")
@click.option(
    "--prefix/--no-prefix",
    default=None,
    help="Prefix each line with pod and container.  [default: if there are several]",
)
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Print the output of a pod, or of the pods of a job, deployment or other workload."""
    from rota.cli.commands import log_reader  # noqa: PLC0415 - not needed to refuse an option

    log_reader.logs(**given)
