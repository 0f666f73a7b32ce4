"""What `rota spot` does: nodes by their marks, and simulated notices."""

from pathlib import Path
from typing import Any, Final

import click

from rota.api import times
from rota.cli import endpoints, output
from rota.cli.acts import asking
from rota.client.verbs import Client, Object
from rota.kit import system
from rota.spot import marks
from rota.spot_control import marking

NODES: Final = ("", "v1", "nodes")
TERMINATING: Final = "rota.dev/terminating"
TERMINATES_AT: Final = "rota.dev/terminates-at"


def list_(*, marks_file: Path | None, as_json: bool, **server: Any) -> None:
    """Show nodes as their marks tell."""
    table = marks.read(marks_file) if marks_file is not None else marks.Marks()
    now = system.SystemClock().now()

    async def work(client: Client) -> list[Object]:
        return [_told(node, table, now) for node in (await client.list(NODES)).items]

    told = asking.at(endpoints.own_cluster(**server), work)
    if as_json:
        output.document(told)
        return
    rows = [
        [
            one["name"],
            one["capacity"],
            "-" if one["seconds_left"] is None else f"{one['seconds_left']}s",
            one["mark"] or one["risk"] or "-",
            one["pool"],
        ]
        for one in told
    ]
    output.table(["NODE", "CAPACITY", "GOES IN", "MARK", "POOL"], rows)


def _told(node: Object, table: marks.Marks, now: float) -> Object:
    reading = marking.read(node, table, now=now)
    notice = reading.notice
    return {
        "name": node["metadata"]["name"],
        "capacity": reading.capacity.value,
        "seconds_left": None if notice is None else round(notice.left(now)),
        "deadline": None if notice is None else times.format_time(notice.deadline),
        "provider": "" if notice is None else notice.provider,
        "mark": "" if notice is None else notice.mark,
        "risk": reading.risky,
        "pool": reading.pool,
    }


def notice(*, node: str, lead: float, withdraw: bool, dry_run: bool, **server: Any) -> None:
    """Write a notice on a node as a cloud would, or take it off."""

    async def work(client: Client) -> None:
        found = await client.get(NODES, node)
        others = [one for one in (found.get("spec") or {}).get("taints") or () if one.get("key") != TERMINATING]
        now = system.SystemClock().now()
        until = None if withdraw else times.format_time(now + lead)
        mine = {"key": TERMINATING, "effect": "NoSchedule", "timeAdded": times.format_time(now)}
        metadata = {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "annotations": {TERMINATES_AT: until},
        }
        taints = others if withdraw else [*others, mine]
        await client.patch(NODES, node, {"metadata": metadata, "spec": {"taints": taints or None}}, dry_run=dry_run)
        said = "stays after all" if withdraw else f"goes in {lead:.0f} s"
        click.echo(f"node/{node} {said}{' (dry run)' if dry_run else ''}")

    asking.at(endpoints.own_cluster(**server), work)
