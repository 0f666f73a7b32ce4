"""`rota explain`: why a pod is where it is, or why it is nowhere, and what would have to change."""

from pathlib import Path
from typing import Any, Final

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command
from rota.cli.scheduler_options import scheduler_options

_PODS: Final = frozenset({"pod", "pods", "po"})
#: How many nodes are told about, unless all are asked for.
_MOST_NODES: Final = 100

_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command(
    "explain",
    cls=Command,
    examples=[
        ("rota explain pod web", "why does it wait, or why is it where it is?"),
        ("rota explain pod web -n shop --node n3", "and why not on n3?"),
        ("rota explain -f web.yaml", "where would this go, before it is submitted?"),
        ("rota explain pod web --scheduler-config mine.yaml", "and by these profiles, plugins and extenders?"),
        ("rota explain pod web -o json", "everything, for programs"),
    ],
)
@click.argument("what", metavar="[pod] [NAME]", nargs=-1, shell_complete=name_completion.complete_names("pods"))
@click.option("-f", "--filename", "manifest", type=_file, metavar="FILE", help="A pod that was not submitted.")
@options.namespace_option
@click.option("--node", metavar="NAME", default="", help="Look at one node, evictions included.")
@click.option("--all", "all_nodes", is_flag=True, help=f"Show all nodes, not only {_MOST_NODES}.")
@scheduler_options("Explain by this KubeSchedulerConfiguration, not by the one in force.")
@click.option("-o", "--output", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@endpoints.nearest_options
def command(*, what: tuple[str, ...], manifest: Path | None, **given: Any) -> None:
    """Say why a pod is where it is, or why it is nowhere.

    Tells per node which plugins refuse the pod and why, per plugin its score and weight, whom evictions would cost the
    place, and what would have to change. Asks the cluster's own scheduler if that is Rota; otherwise, and with
    --scheduler-config or -f, reads the cluster once and decides here. Changes nothing.
    """
    name = _name(what) if manifest is None else ""
    if manifest is not None and what:
        raise click.UsageError("give either the name of a pod or -f")
    from rota.cli.commands import explanation  # noqa: PLC0415 - the scheduler is not needed to refuse an option

    explanation.explain(name=name, manifest=manifest, **given)


def _name(what: tuple[str, ...]) -> str:
    """Read `pod NAME` or `pod/NAME`, as kubectl does."""
    words = what[0].split("/", 1) if len(what) == 1 else list(what)
    if len(words) != 2 or words[0] not in _PODS or not words[1]:
        raise click.UsageError("say which pod: rota explain pod NAME, or -f FILE")
    return words[1]
