"""`rota logs`: what tasks have written."""

from typing import Any

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command


def _joined(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> str:
    """A kind and a name may be two words, as with other verbs."""
    del param
    if len(words) > 2:
        raise click.UsageError(f"one at a time, not {len(words)}; several with -l", ctx)
    return "/".join(words)


@click.command(
    "logs",
    cls=Command,
    examples=[
        ("rota logs web", "what a task has written so far"),
        ("rota logs -f web", "and what it goes on to write, until it ends"),
        ("rota logs -f job/nightly", "all pods of a job, each line with its pod in front"),
        ("rota logs --previous web", "of the run before the last restart"),
        ("rota logs -l app=web --tail 20 --since 5m", "the latest of all pods with a label"),
    ],
)
@click.argument(
    "name", metavar="[KIND/]NAME", nargs=-1, callback=_joined, shell_complete=name_completion.complete_names("pods")
)
@options.namespace_option
@options.selector_option
@options.container_option
@click.option("--all-containers", is_flag=True, help="All containers, init containers included.")
@click.option("-f", "--follow", is_flag=True, help="Wait for it to start, and go on until it ends.")
@click.option("-p", "--previous", is_flag=True, help="Of the run before, if it was restarted.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Only so many of the latest lines.")
@click.option("--since", type=options.Duration(), metavar="DURATION", help="Only what is no older: 30s, 5m, 2h.")
@click.option("--timestamps", is_flag=True, help="With the time in front of each line.")
@click.option("--prefix/--no-prefix", default=None, help="Name pod and container on each line.  [default: if several]")
@endpoints.nearest_options
def command(**given: Any) -> None:
    """Print what a pod, or the pods of a job, deployment or other workload, have written."""
    from rota.cli.commands import log_reader  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    log_reader.logs(**given)
