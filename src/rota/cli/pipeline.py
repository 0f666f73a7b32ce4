"""`rota pipeline`: run pipelines, follow runs, and draw their graphs."""

from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command, CommandGroup


@click.group(
    "pipeline",
    cls=CommandGroup,
    examples=[
        ("rota pipeline run train.yaml -p model=small --watch", "run the pipeline of a file and follow the run"),
        ("rota pipeline list", "list runs"),
        ("rota pipeline retry train-x7k2p", "repeat the steps that did not succeed"),
    ],
)
def command() -> None:
    """Run pipelines; follow, cancel and retry their runs."""


@command.command(
    "run",
    cls=Command,
    examples=[
        ("rota pipeline run train.yaml -p model=small", "submit the pipeline of a file and start a run"),
        ("rota pipeline run train --watch", "start a run of a submitted pipeline and follow it"),
    ],
)
@click.argument("what", metavar="FILE|NAME")
@click.option(
    "-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE", help="Value of a parameter; repeatable."
)
@click.option(
    "--name", default="", metavar="NAME", help="Name of the run.  [default: the pipeline's name and a random suffix]"
)
@click.option("--watch", is_flag=True, help="Follow the run; the exit code is 1 if it fails.")
@options.namespace_option
@output.json_option
@endpoints.own_options
def run(**given: Any) -> None:
    """Start a run of a pipeline in a file, or of a submitted pipeline."""
    from rota.cli.commands import pipeline_runs  # noqa: PLC0415 - not needed to refuse an option

    pipeline_runs.run(**given)


@command.command("list", cls=Command, examples=[("rota pipeline list -A", "all runs of all namespaces")])
@click.argument("pipeline", metavar="[PIPELINE]", default="")
@options.namespace_option
@options.everywhere_option
@output.json_option
@endpoints.nearest_options
def list_(**given: Any) -> None:
    """List the runs of one pipeline or of all pipelines."""
    from rota.cli.commands import pipeline_runs as commands_pipeline_runs  # noqa: PLC0415 - as above

    commands_pipeline_runs.list_(**given)


@command.command(
    "get",
    cls=Command,
    examples=[
        ("rota pipeline get", "all runs of the namespace"),
        ("rota pipeline get train-x7k2p", "the steps with their states, times and reasons for waiting"),
        ("rota pipeline get train-x7k2p --watch", "the same, as it changes"),
    ],
)
@click.argument("name", metavar="[RUN]", default="")
@click.option("--watch", is_flag=True, help="Follow the run to its end.")
@options.namespace_option
@output.json_option
@endpoints.nearest_options
def get(**given: Any) -> None:
    """Show a run with its steps, or list all runs."""
    from rota.cli.commands import pipeline_runs as pipelines  # noqa: PLC0415 - as above

    pipelines.get(**given)


@command.command(
    "logs",
    cls=Command,
    examples=[
        ("rota pipeline logs train-x7k2p", "the output of all steps, one after the other"),
        ("rota pipeline logs train-x7k2p --follow", "follow the output, each line prefixed with its step"),
        ("rota pipeline logs train-x7k2p --step fit", "the output of one step"),
    ],
)
@click.argument("name", metavar="RUN")
@click.option("--step", default="", metavar="STEP", help="Only this step.")
@click.option("-f", "--follow", is_flag=True, help="Print new lines until the run ends.")
@options.namespace_option
@endpoints.nearest_options
def logs(**given: Any) -> None:
    """Print the output of the steps of a run."""
    from rota.cli.commands import pipeline_runs as pipelines  # noqa: PLC0415 - as above

    pipelines.logs(**given)


def _verb(name: str, help_text: str, example: str) -> None:
    @command.command(name, cls=Command, help=help_text, examples=[(f"rota pipeline {name} train-x7k2p", example)])
    @click.argument("name", metavar="RUN")
    @options.namespace_option
    @endpoints.own_options
    def change(**given: Any) -> None:
        from rota.cli.commands import pipeline_runs as pipelines  # noqa: PLC0415 - as above

        pipelines.change(verb=name, **given)


_verb("cancel", "Cancel a run: running steps are stopped; steps at the end still run.", "cancel the run")
_verb("retry", "Repeat the steps of an ended run that did not succeed.", "repeat from the failed step")
_verb("suspend", "Suspend a run: no further steps start; running steps continue.", "suspend the run")
_verb("resume", "Resume a suspended run.", "resume the run")


@command.command(
    "graph",
    cls=Command,
    examples=[
        ("rota pipeline graph train.yaml", "the steps of a file as text, without a server"),
        ("rota pipeline graph train-x7k2p --svg > run.svg", "a run as an image, coloured by state"),
    ],
)
@click.argument("what", metavar="FILE|PIPELINE|RUN")
@click.option("--svg", is_flag=True, help="Write SVG instead of text.")
@options.namespace_option
@endpoints.nearest_options
def graph(**given: Any) -> None:
    """Show the graph of steps and their dependencies."""
    from rota.cli.commands import pipeline_runs as pipelines  # noqa: PLC0415 - as above

    pipelines.graph(**given)
