"""`rota spot`: nodes by their signals, and simulated notices."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from rota.api import errors, meta, times
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.client import masters
from rota.client.pods import PODS
from rota.client.verbs import Client, Object, Selection
from rota.kit import system
from rota.spot import node_signals, prices, reservations
from rota.spot.node_readings import Reading
from rota.spot.node_signals import TERMINATES_AT, TERMINATING
from rota.spot.prices import Savings
from rota.spot.reservations import Reservation
from rota.spot_control import node_state
from rota.spot_control.leader_process import LEASE

NODES: Final = ("", "v1", "nodes")
#: The Lease of the controllers that masters run.
_CONTROLLERS: Final = "rota-controllers"
_LEASES: Final = ("coordination.k8s.io", "v1", "leases")


def list_(*, marks_file: Path | None, as_json: bool, **server: Any) -> None:
    """List nodes by their signals, with placeholder pods and savings."""
    table = node_signals.read(marks_file) if marks_file is not None else node_signals.NodeSignals()
    now = system.SystemClock().now()

    async def work(client: Client) -> tuple[list[Object], list[Reservation]]:
        nodes = (await client.list(NODES)).items
        try:
            held = (await client.list(PODS, selection=Selection(labels=reservations.HELD_FOR))).items
        except errors.Forbidden:
            held = []  # permission to read nodes does not include pods
        return nodes, [one for one in map(reservations.read, held) if not one.over]

    nodes, held = session.at(endpoints.own_cluster(**server), work)
    readings = {node["metadata"]["name"]: node_state.read(node, table, now=now) for node in nodes}
    savings = prices.savings((node, readings[node["metadata"]["name"]].capacity) for node in nodes)
    told = [_told(node, readings[node["metadata"]["name"]], held, savings, now) for node in nodes]
    if as_json:
        output.document(told)
        return
    rows = [
        [
            one["name"],
            one["capacity"],
            "-" if one["seconds_left"] is None else f"{one['seconds_left']}s",
            one["mark"] or one["risk"] or "-",
            one["pool"].strip("/") or "-",
            str(len(one["places"])),
            "-" if one["price"] is None else f"{one['price']:g}",
            "-" if one["saves"] is None else f"{one['saves']:g}",
        ]
        for one in told
    ]
    output.table(["NODE", "CAPACITY", "GOES IN", "MARK", "POOL", "PLACES HELD", "PRICE", "SAVES"], rows)
    if savings.nodes:
        unknown = f"; of {savings.unknown} more it is not known" if savings.unknown else ""
        click.echo(f"Spot machines save {savings.per_hour:g} an hour{unknown}.")


def _told(node: Object, reading: Reading, held: Sequence[Reservation], savings: Savings, now: float) -> Object:
    notice, name = reading.notice, node["metadata"]["name"]
    saves = savings.nodes.get(name)
    return {
        "name": name,
        "capacity": reading.capacity.value,
        "seconds_left": None if notice is None else round(notice.left(now)),
        "deadline": None if notice is None else times.format_time(notice.deadline),
        "provider": "" if notice is None else notice.provider,
        "mark": "" if notice is None else notice.mark,
        "risk": reading.risky,
        "pool": reading.pool,
        "places": sorted(one.pod for one in held if one.node == name),
        "price": prices.of(node),
        "saves": None if saves is None else round(saves, 6),
    }


def notice(*, node: str, lead: float, withdraw: bool, dry_run: bool, **server: Any) -> None:
    """Write a notice to a node as a cloud would, or withdraw it."""

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
        if not withdraw and not await _is_acted_on(client):
            output.note(
                "no spot controller runs that would move its pods: start 'rota spot-controller', or a master with it"
            )

    session.at(endpoints.own_cluster(**server), work)


async def _is_acted_on(client: Client) -> bool:
    """Whether a spot controller runs: as its own process, or in the leading master.

    Without permission to read Leases nothing is printed.
    """
    try:
        found = (await client.list(_LEASES)).items
    except errors.Forbidden:
        return True
    now = system.SystemClock().now()
    if any(meta.name(lease) == LEASE and _is_held(lease, now) for lease in found):
        return True
    leaders = {
        (lease.get("spec") or {}).get("holderIdentity")
        for lease in found
        if meta.name(lease) == _CONTROLLERS and _is_held(lease, now)
    }
    listed = [master for lease in found if (master := masters.read(lease)) is not None]
    return any(one.identity in leaders and "spot" in one.controllers for one in listed)


def _is_held(lease: Object, now: float) -> bool:
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime") or ""
    return bool(spec.get("holderIdentity") and renewed) and now - times.parse(renewed) <= spec.get(
        "leaseDurationSeconds", 15
    )
