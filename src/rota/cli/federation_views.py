"""`rota federation get` and `interpret`: read member clusters, and try rules for kinds."""

from pathlib import Path
from typing import Any, Final

import click

from rota.cli import endpoints, options, output
from rota.cli.command_types import Command

_FORMS: Final = ("table", "name", "json", "yaml")
_OPERATIONS: Final = (
    "InterpretReplica",
    "InterpretComponent",
    "ReviseReplica",
    "Retain",
    "AggregateStatus",
    "InterpretDependency",
    "InterpretStatus",
    "InterpretHealth",
)
_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "get",
    cls=Command,
    examples=[
        ("rota federation get pods", "the pods of the namespace in all member clusters"),
        ("rota federation get deployments --clusters m1,m2 -A", "of two clusters, in all namespaces"),
        ("rota federation get deployment web --clusters m1 -o yaml", "one object in full"),
    ],
)
@click.argument("words", metavar="KIND [NAME]...", nargs=-1, required=True)
@click.option(
    "--clusters", multiple=True, metavar="NAME[,NAME...]", help="Only these clusters; all members without it."
)
@options.namespace_option
@options.everywhere_option
@options.selector_option
@click.option(
    "-o", "--output", "form", type=click.Choice(_FORMS), default="table", show_default=True, help="Output format."
)
@endpoints.server_options
def get(**given: Any) -> None:
    """List objects in member clusters.

    Requests go through the control plane (clusters/NAME/proxy) and reach each member as the same user, whose roles in
    the member decide. They need the permission for clusters/proxy in the control plane.
    """
    from rota.cli.commands import member_listing  # noqa: PLC0415 - not needed to refuse an option

    member_listing.get(**given)


@click.command(
    "interpret",
    cls=Command,
    examples=[
        ("rota federation interpret -f customization.yaml --check", "load all scripts"),
        (
            "rota federation interpret -f customization.yaml --operation InterpretReplica --desired-file web.yaml",
            "replicas and requirements by a script",
        ),
        (
            "rota federation interpret --operation AggregateStatus --desired-file web.yaml --status-file items.yaml",
            "by the native rules",
        ),
    ],
)
@click.option(
    "-f", "--filename", "files", type=_file, multiple=True, help="ResourceInterpreterCustomizations; repeatable."
)
@click.option("--operation", type=click.Choice(_OPERATIONS, case_sensitive=False), help="The question to answer.")
@click.option("--check", is_flag=True, help="Only load the scripts.")
@click.option("--desired-file", "desired", type=_file, help="The object as the control plane has it.")
@click.option("--observed-file", "observed", type=_file, help="The object as a member has it.")
@click.option("--status-file", "statuses", type=_file, help="Items of an aggregatedStatus, for AggregateStatus.")
@click.option("--desired-replica", "replicas", type=click.IntRange(min=0), help="The number for ReviseReplica.")
@output.json_option
def interpret(*, files: tuple[Path, ...], operation: str | None, check: bool, as_json: bool, **given: Any) -> None:
    """Try the rules for a kind on objects in files, without a cluster.

    Rules are asked in the order of a control plane: Lua scripts of the customizations, Python rules of installed
    packages, the native kinds, and the generic reading. Lua needs rota[lua].
    """
    from rota.cli.commands import interpretation  # noqa: PLC0415 - not needed to refuse an option

    if check:
        if not files:
            raise click.UsageError("give customizations with --filename")
        interpretation.check(files, as_json=as_json)
        return
    if operation is None:
        raise click.UsageError("give --operation or --check")
    interpretation.interpret(operation, files, as_json=as_json, **given)
