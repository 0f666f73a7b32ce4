"""`rota cluster`: create, scale, upgrade, repair and delete clusters on machines that ssh reaches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from rota.cli import output
from rota.cli.command_types import Command, CommandGroup

_F = TypeVar("_F", bound=Callable[..., Any])
_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.group(
    "cluster",
    cls=CommandGroup,
    examples=[
        ("rota cluster create -f cluster.yaml --plan", "print the steps, and change nothing"),
        ("rota cluster create -f cluster.yaml", "install and start masters and workers"),
        ("rota cluster scale -f cluster.yaml", "add and remove members as the edited file says"),
        ("rota cluster status -f cluster.yaml", "members, releases and an unfinished operation"),
        ("rota cluster delete -f cluster.yaml", "remove everything from the machines"),
    ],
)
def command() -> None:
    """Create, scale, upgrade, repair and delete a cluster on machines that ssh reaches, or on this one.

    The file names the store, the release, the masters and the workers. Each command observes the machines, plans
    the steps from there to the file, and carries them out. The journal beside the file has what was placed where. A
    command that was cut off goes on when it is run again.
    """


def _options(*, removes: bool = False, drains: bool = False, upgrades: bool = False) -> Callable[[_F], _F]:
    def decorated(made: _F) -> _F:
        made = output.json_option(made)
        if upgrades:
            made = click.option(
                "--hold-level", is_flag=True, help="Do not raise the cluster's level: the release before can come back."
            )(made)
        if drains:
            made = click.option(
                "--force", is_flag=True, help="Evict pods that no controller starts again, and local data of pods."
            )(made)
        if removes:
            made = click.option(
                "--forget",
                multiple=True,
                metavar="NAME",
                help="Remove a member whose machine is lost from the journal; repeatable.",
            )(made)
        made = click.option("--plan", "only_plan", is_flag=True, help="Print the steps and change nothing.")(made)
        return _file_option(made)

    return decorated


def _file_option(made: _F) -> _F:
    return click.option(
        "-f", "--filename", "file", type=_FILE, required=True, metavar="FILE", help="The file of the cluster."
    )(made)


@command.command(
    "create",
    cls=Command,
    examples=[
        ("rota cluster create -f cluster.yaml", "install and start the members; run it again if it was cut off"),
        ("rota cluster create -f cluster.yaml --plan", "print the steps"),
    ],
)
@_options()
def create(**given: Any) -> None:
    """Install and start the members of the file: the first master, the other masters, then the workers."""
    _run("create", given)


@command.command(
    "scale",
    cls=Command,
    examples=[
        ("rota cluster scale -f cluster.yaml", "after members were added to or removed from the file"),
        ("rota cluster scale -f cluster.yaml --forget w4", "w4 was removed from the file, and its machine is lost"),
    ],
)
@_options(removes=True, drains=True)
def scale(**given: Any) -> None:
    """Add the new members of the file; drain and remove those that it no longer has.

    Pods leave a worker as their disruption budgets allow. A pod that no controller starts again stops the removal,
    unless --force is given.
    """
    _run("scale", given)


@command.command(
    "upgrade",
    cls=Command,
    examples=[
        ("rota cluster upgrade -f cluster.yaml", "after the bundle, the program or options were changed in the file"),
        ("rota cluster upgrade -f cluster.yaml --plan", "print the order of restarts"),
        ("rota cluster upgrade -f cluster.yaml --hold-level", "keep the way back open; run it again without to end it"),
    ],
)
@_options(upgrades=True)
def upgrade(**given: Any) -> None:
    """Restart members with the release and options of the file, one at a time: masters first, then workers.

    Tasks keep running while their worker restarts. When every member has the new release, the cluster's level is raised
    (see `rota level`). Until then the former release can come back: name the former bundle in the file and run it
    again. The machines keep the release in use and the one before.
    """
    _run("upgrade", given)


@command.command(
    "repair", cls=Command, examples=[("rota cluster repair -f cluster.yaml", "start or replace what does not run")]
)
@_options()
def repair(**given: Any) -> None:
    """Start members that have stopped, restart those that do not answer, and install machines that were replaced."""
    _run("repair", given)


@command.command(
    "delete",
    cls=Command,
    examples=[
        ("rota cluster delete -f cluster.yaml", "stop all members and tasks, and remove their files"),
        ("rota cluster delete -f cluster.yaml --forget w4", "the machine of w4 is lost"),
    ],
)
@_options(removes=True)
def delete(**given: Any) -> None:
    """Stop all members and their tasks, and remove everything of theirs from the machines.

    A PostgreSQL or etcd store is not touched: it belongs to its database server.
    """
    _run("delete", given)


@command.command(
    "status",
    cls=Command,
    examples=[
        ("rota cluster status -f cluster.yaml", "members as their machines report them"),
        ("rota cluster status -f cluster.yaml --json", "for a script"),
    ],
)
@_file_option
@output.json_option
def status(*, file: Path, as_json: bool) -> None:
    """Show the members, what runs on their machines, and an operation that was cut off.

    The exit code is 1 if the cluster is not as its file says.
    """
    from rota.cli.commands import cluster_lifecycle  # noqa: PLC0415 - not needed to refuse an option

    cluster_lifecycle.status(file=file, as_json=as_json)


@command.command(
    "bundle",
    cls=Command,
    examples=[
        ("rota cluster bundle --output rota.bundle", "from the source tree in this folder"),
        ("rota cluster bundle --source ~/rota --output rota.bundle", "from another one"),
        (
            "rota cluster bundle --output arm.bundle --pip=--platform=manylinux_2_28_aarch64",
            "for machines of another kind",
        ),
    ],
)
@click.option(
    "--source",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    show_default="this folder",
    metavar="DIR",
    help="The source tree.",
)
@click.option(
    "--output",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The bundle.",
)
@click.option("--pip", multiple=True, metavar="OPTION", help="A further option of pip download; repeatable.")
@output.json_option
def bundle(*, source: Path, target: Path, pip: tuple[str, ...], as_json: bool) -> None:
    """Write a file from which machines without a network install Rota, with the hash of every wheel in it."""
    from rota.lifecycle import bundle as bundles  # noqa: PLC0415 - not needed to refuse an option

    release = bundles.make(target.absolute(), source=source.absolute(), platform=pip)
    if as_json:
        output.document({"release": release, "file": str(target), "bytes": target.stat().st_size})
    else:
        click.echo(f"{target} has release {release} ({target.stat().st_size / 1e6:.0f} MB)")


def _run(verb: str, given: dict[str, Any]) -> None:
    from rota.cli.commands import cluster_lifecycle  # noqa: PLC0415 - not needed to refuse an option

    cluster_lifecycle.run(verb, **given)
