"""`rota job`: run batch jobs, say why they wait, suspend and resume them."""

from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command, CommandGroup


@click.group(
    "job",
    cls=CommandGroup,
    examples=[
        ("rota job run --replicas 4 --gang -- ./train", "start four processes together"),
        ("rota job list -A", "all jobs, with the reasons why some wait"),
        ("rota job suspend train", "stop a job until it is resumed"),
    ],
)
def command() -> None:
    """Run, list and change batch jobs (Volcano's Jobs)."""


@command.command(
    "run",
    cls=Command,
    examples=[
        ("rota job run -f train.yaml", "submit the job of a file"),
        ("rota job run -N train --replicas 4 --gang -- ./train", "four processes that start together"),
        (
            "rota job run -N sum --replicas 8 --min 2 -q night -R cpu=1 -- ./sum",
            "eight, of which two are enough to start",
        ),
    ],
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("-f", "--file", "file", default="", metavar="FILE", help="Submit the job of this file instead.")
@click.option("-N", "--name", default="", metavar="NAME", help="Name of the job.  [default: job- and a random suffix]")
@click.option("-i", "--image", default="none", metavar="IMAGE", help="Image of the container.", show_default=True)
@click.option("-r", "--replicas", type=click.IntRange(1), default=1, show_default=True, help="Number of processes.")
@click.option("-m", "--min", "least", type=click.IntRange(1), default=None, help="How many must be able to start.")
@click.option("--gang", is_flag=True, help="All of them must be able to start.  [default: one]")
@click.option("-q", "--queue", default="", metavar="QUEUE", help="Queue of the job.  [default: default]")
@click.option("-R", "--requests", default="", metavar="LIST", help="Resources of each process: cpu=1,memory=1Gi.")
@click.option("-L", "--limits", default="", metavar="LIST", help="Limits of each process: memory=2Gi.")
@click.option("-S", "--scheduler", default="", metavar="NAME", help="Scheduler of the job.  [default: volcano]")
@options.namespace_option
@output.json_option
@endpoints.own_options
def run(**given: Any) -> None:
    """Start a job from a file, or one whose processes all run a command."""
    from rota.cli.commands import batch_jobs  # noqa: PLC0415 - not needed to refuse an option

    batch_jobs.run(**given)


@command.command(
    "list",
    cls=Command,
    examples=[
        ("rota job list -q night", "the jobs of a queue"),
        ("rota job list --json", "the same as a document"),
    ],
)
@click.option("-q", "--queue", default="", metavar="QUEUE", help="Only jobs of this queue.")
@click.option("-S", "--scheduler", default="", metavar="NAME", help="Only jobs for this scheduler.")
@click.option("-l", "--selector", default="", metavar="LABELS", help="Only jobs with these labels.")
@options.namespace_option
@options.everywhere_option
@output.json_option
@endpoints.nearest_options
def list_(**given: Any) -> None:
    """List jobs with the state of their processes, and why they wait."""
    from rota.cli.commands import batch_jobs as commands_batch_jobs  # noqa: PLC0415 - as above

    commands_batch_jobs.list_(**given)


@command.command("view", cls=Command, examples=[("rota job view train", "one job, its tasks, and what happened to it")])
@click.argument("name", metavar="JOB")
@options.namespace_option
@output.json_option
@endpoints.nearest_options
def view(**given: Any) -> None:
    """Show a job: phases, tasks, why it waits, and its events."""
    from rota.cli.commands import batch_jobs as jobs  # noqa: PLC0415 - as above

    jobs.view(**given)


def _verb(name: str, help_text: str, example: str) -> None:
    @command.command(name, cls=Command, help=help_text, examples=[(f"rota job {name} train", example)])
    @click.argument("name", metavar="JOB")
    @options.namespace_option
    @endpoints.own_options
    def change(**given: Any) -> None:
        from rota.cli.commands import batch_jobs as jobs  # noqa: PLC0415 - as above

        jobs.change(verb=name, **given)


_verb("suspend", "Suspend a job: its processes are stopped, and it can be resumed.", "stop the processes of a job")
_verb("resume", "Resume a suspended job: its processes start again.", "start them again")
_verb("delete", "Delete a job with its processes.", "delete the job")
