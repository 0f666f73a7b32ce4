"""`rota dump`: write a cluster to a file that other commands read."""

from pathlib import Path
from typing import Any

import click

from rota.cli import endpoints
from rota.cli.command_types import Command
from rota.cli.scheduler_options import scheduler_options


@click.command(
    "dump",
    cls=Command,
    examples=[
        ("rota dump now.jsonl.gz", "nodes, pods and all that decisions read"),
        ("rota dump now.jsonl && rota decide --cluster now.jsonl --pod web.yaml --table", "where a pod would go"),
        ("rota dump now.jsonl && rota simulate now.jsonl --policy default,mine.yaml", "compare configurations"),
        ("rota dump now.jsonl && rota what-if now.jsonl --drain node-1", "where the pods of a node would go"),
    ],
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@scheduler_options("Write this KubeSchedulerConfiguration into the dump, with the kinds that its plugins watch.")
@endpoints.nearest_options
def command(*, file: Path, **given: Any) -> None:
    """Write a cluster to FILE, in gzip if its name ends in .gz.

    The file has the nodes, the pods that have not ended, and the objects that placement depends on. Commands, arguments
    and environments of containers are left out. rota decide, rota simulate, rota what-if and
    rota rebalance read it.
    """
    from rota.cli.commands import cluster_dumping  # noqa: PLC0415 - not needed to refuse an option

    cluster_dumping.dump(file=file, **given)
