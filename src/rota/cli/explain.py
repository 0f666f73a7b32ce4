"""`rota explain`: explain the placement of a pod, or why it is not scheduled."""

from pathlib import Path
from typing import Any, Final

import click

from rota.cli import endpoints, name_completion, options
from rota.cli.command_types import Command
from rota.cli.scheduler_options import scheduler_options

_PODS: Final = frozenset({"pod", "pods", "po"})
#: How many nodes are shown without `--all`.
_MOST_NODES: Final = 100

_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command(
    "explain",
    cls=Command,
    examples=[
        ("rota explain pod web", "why it is on its node, or why it is pending"),
        ("rota explain pod web -n shop --node n3", "why it is not on n3"),
        ("rota explain -f web.yaml", "where this pod would go if it were submitted"),
        ("rota explain pod web --scheduler-config mine.yaml", "with other profiles, plugins and extenders"),
        ("rota explain pod web -o json", "all details as JSON"),
    ],
)
@click.argument("what", metavar="[pod] [NAME]", nargs=-1, shell_complete=name_completion.complete_names("pods"))
@click.option(
    "-f",
    "--filename",
    "manifest",
    type=_file,
    metavar="FILE",
    help="Explain the pod of this manifest, without submitting it.",
)
@options.namespace_option
@click.option("--node", metavar="NAME", default="", help="Explain one node, preemption included.")
@click.option("--all", "all_nodes", is_flag=True, help=f"Show all nodes, not only {_MOST_NODES}.")
@scheduler_options("Use this KubeSchedulerConfiguration instead of the scheduler's.")
@click.option("-o", "--output", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@endpoints.nearest_options
def command(*, what: tuple[str, ...], manifest: Path | None, **given: Any) -> None:
    """Explain why a pod is on its node, or why it is not scheduled.

    Shows for each node which plugins reject the pod and why, the scores and weights of plugins, the victims of
    preemption, and what would make the pod schedulable. Rota's scheduler answers if the cluster has one; otherwise, and
    with --scheduler-config or -f, the command reads the cluster once and decides itself. Changes nothing.
    """
    name = _name(what) if manifest is None else ""
    if manifest is not None and what:
        raise click.UsageError("give either the name of a pod or -f")
    from rota.cli.commands import explanation  # noqa: PLC0415 - not needed to refuse an option

    explanation.explain(name=name, manifest=manifest, **given)


def _name(what: tuple[str, ...]) -> str:
    """Read `pod NAME` or `pod/NAME`, as kubectl does."""
    words = what[0].split("/", 1) if len(what) == 1 else list(what)
    if len(words) != 2 or words[0] not in _PODS or not words[1]:
        raise click.UsageError("say which pod: rota explain pod NAME, or -f FILE")
    return words[1]
