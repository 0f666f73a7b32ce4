"""`rota pipeline`: run pipelines, follow them, and see what they look like."""

from typing import Any

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command, CommandGroup


@click.group(
    "pipeline",
    cls=CommandGroup,
    examples=[
        ("rota pipeline run train.yaml -p model=small --watch", "run a pipeline of a file and follow it"),
        ("rota pipeline list", "which runs there are"),
        ("rota pipeline retry train-x7k2p", "do again what did not succeed"),
    ],
)
def command() -> None:
    """Run pipelines, follow them, stop them, try them again."""


@command.command(
    "run",
    cls=Command,
    examples=[
        ("rota pipeline run train.yaml -p model=small", "submit the pipeline of a file and begin a run"),
        ("rota pipeline run train --watch", "begin a run of a pipeline that is there already, and follow it"),
    ],
)
@click.argument("what", metavar="FILE|NAME")
@click.option(
    "-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE", help="The value of a parameter; repeat it."
)
@click.option("--name", default="", metavar="NAME", help="The run's name.  [default: the pipeline's, and some letters]")
@click.option("--watch", is_flag=True, help="Follow the run; the exit code says how it ended.")
@options.namespace_option
@output.json_option
@endpoints.own_options
def run(**given: Any) -> None:
    """Begin a run, of a pipeline in a file or of one that was submitted before."""
    from rota.cli.commands import pipeline_runs  # noqa: PLC0415 - what asks a server is not needed to refuse an option

    pipeline_runs.run(**given)


@command.command("list", cls=Command, examples=[("rota pipeline list -A", "all runs of all namespaces")])
@click.argument("pipeline", metavar="[PIPELINE]", default="")
@options.namespace_option
@options.everywhere_option
@output.json_option
@endpoints.nearest_options
def list_(**given: Any) -> None:
    """List runs, of one pipeline or of all."""
    from rota.cli.commands import pipeline_runs as commands_pipeline_runs  # noqa: PLC0415 - as above

    commands_pipeline_runs.list_(**given)


@command.command(
    "get",
    cls=Command,
    examples=[
        ("rota pipeline get", "all runs of the namespace"),
        ("rota pipeline get train-x7k2p", "its steps, their states and times, and why what waits waits"),
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
        ("rota pipeline logs train-x7k2p", "what all steps have written, one after the other"),
        ("rota pipeline logs train-x7k2p --follow", "as it is written, each line with its step"),
        ("rota pipeline logs train-x7k2p --step fit", "of one step"),
    ],
)
@click.argument("name", metavar="RUN")
@click.option("--step", default="", metavar="STEP", help="Of one step only.")
@click.option("-f", "--follow", is_flag=True, help="Print what is written until the run is over.")
@options.namespace_option
@endpoints.nearest_options
def logs(**given: Any) -> None:
    """Print what the steps of a run have written."""
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


_verb("cancel", "End a run: what runs is stopped, the steps at the end still run.", "stop it")
_verb("retry", "Do again what did not succeed in a run that is over.", "from the failed step on")
_verb("suspend", "Begin no more steps of a run for now; what runs goes on.", "hold on")
_verb("resume", "Go on with a suspended run.", "go on")


@command.command(
    "graph",
    cls=Command,
    examples=[
        ("rota pipeline graph train.yaml", "the steps of a file as text, without a server"),
        ("rota pipeline graph train-x7k2p --svg > run.svg", "a run as a picture, in the colours of its states"),
    ],
)
@click.argument("what", metavar="FILE|PIPELINE|RUN")
@click.option("--svg", is_flag=True, help="Write a picture instead of text.")
@options.namespace_option
@endpoints.nearest_options
def graph(**given: Any) -> None:
    """Show which step waits for which."""
    from rota.cli.commands import pipeline_runs as pipelines  # noqa: PLC0415 - as above

    pipelines.graph(**given)
