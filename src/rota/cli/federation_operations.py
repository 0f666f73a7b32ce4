"""`rota federation`: operations on members: cordon, uncordon, taint, top, promote, drill."""

from typing import Any, Final

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command

NOT_RECOVERED: Final = 3

_clusters = click.argument("clusters", metavar="CLUSTER...", nargs=-1, required=True)


def add_to(group: click.Group) -> None:
    """Add the commands to the group `federation`."""
    for one in (cordon, uncordon, taint, top, promote, drill):
        group.add_command(one)


@click.command(
    "cordon", cls=Command, examples=[("rota federation cordon m1", "place nothing new there; what is there stays")]
)
@_clusters
@options.dry_run_option
@endpoints.server_options
def cordon(*, clusters: tuple[str, ...], dry_run: bool, **server: Any) -> None:
    """Mark member clusters as unschedulable. Resources that are there stay."""
    from rota.cli.commands import federation_operations as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.cordon(clusters, unschedulable=True, dry_run=dry_run, **server)


@click.command("uncordon", cls=Command, examples=[("rota federation uncordon m1", "place resources there again")])
@_clusters
@options.dry_run_option
@endpoints.server_options
def uncordon(*, clusters: tuple[str, ...], dry_run: bool, **server: Any) -> None:
    """Mark member clusters as schedulable."""
    from rota.cli.commands import federation_operations as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.cordon(clusters, unschedulable=False, dry_run=dry_run, **server)


@click.command(
    "taint",
    cls=Command,
    examples=[
        ("rota federation taint m1 maintenance=true:NoExecute", "with taint eviction, resources leave the cluster"),
        ("rota federation taint m1 maintenance:NoExecute-", "remove the taint"),
    ],
)
@click.argument("cluster", metavar="CLUSTER")
@click.argument("taints", metavar="TAINT...", nargs=-1, required=True)
@options.dry_run_option
@endpoints.server_options
def taint(*, cluster: str, taints: tuple[str, ...], dry_run: bool, **server: Any) -> None:
    """Set taints of a member cluster (KEY[=VALUE]:EFFECT), or remove them (with a dash at the end)."""
    from rota.cli.commands import federation_operations as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.taint(cluster, taints, dry_run=dry_run, **server)


@click.command("top", cls=Command, examples=[("rota federation top", "requests and capacity of every member")])
@output.json_option
@endpoints.server_options
def top(*, as_json: bool, **server: Any) -> None:
    """Show what the nodes of each member offer, and what pods there request."""
    from rota.cli.commands import federation_operations as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.top(as_json=as_json, **server)


@click.command(
    "promote",
    cls=Command,
    examples=[
        ("rota federation promote deployment web --cluster m1", "let the federation manage it from now on"),
        ("rota federation promote deployment web --cluster m1 --dry-run", "only check"),
    ],
)
@click.argument("words", metavar="KIND NAME", nargs=-1, required=True)
@click.option("--cluster", required=True, metavar="NAME", help="The member that has the object.")
@options.namespace_option
@options.dry_run_option
@output.json_option
@endpoints.server_options
def promote(*, words: tuple[str, ...], **given: Any) -> None:
    """Import an object of a member into the federation, with a policy that keeps it in that member.

    The object in the member is taken over as it is; nothing is restarted. Edit the policy to spread it to other
    members. It is read through the control plane, as the same user.
    """
    from rota.cli.commands import federation_operations as commands  # noqa: PLC0415 - not needed to refuse an option

    commands.promote(words, **given)


@click.command(
    "drill",
    cls=Command,
    examples=[
        ("rota federation drill --cluster m1 --dry-run", "what would move, what could not, and how long it would take"),
        ("rota federation drill --cluster m1", "evict everything for real, measure the recovery, and allow returns"),
    ],
)
@click.option("--cluster", required=True, metavar="NAME", help="The member whose failure is rehearsed.")
@options.dry_run_option
@options.duration_option("--timeout", "10m", "Maximum time to wait for the recovery.")
@click.option("--keep", is_flag=True, help="Leave the cluster tainted afterwards.")
@output.json_option
@endpoints.server_options
@click.pass_context
def drill(ctx: click.Context, /, *, cluster: str, **given: Any) -> None:
    """Rehearse the failure of a member cluster.

    With --dry-run, decide as in a failure and change nothing. Without it, taint the cluster (rota.dev/drill:NoExecute),
    so that resources move as in a failover, measure when they are healthy elsewhere, and remove the taint. Resources do
    not return by themselves; FailbackPolicies decide that. Exit code 3: something cannot move, or has not recovered in
    time.
    """
    from rota.cli.commands import federation_drill as commands  # noqa: PLC0415 - not needed to refuse an option

    if not commands.run(cluster, **given):
        ctx.exit(NOT_RECOVERED)
