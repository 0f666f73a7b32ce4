"""`rota queue`: makes, lists, shows and changes queues."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from rota.api import errors as api_errors
from rota.api import meta
from rota.api.batch import kinds, policies
from rota.cli import endpoints, output
from rota.cli.commands import batch_jobs, session
from rota.client.verbs import Client, Object
from rota.kit import errors, system

#: Commands about queues, which belong to no namespace, are written here.
_NAMESPACE: Final = "default"
_ACTIONS: Final = {"open": policies.OPEN_QUEUE, "close": policies.CLOSE_QUEUE}
_PHASES: Final = ("Pending", "Inqueue", "Running", "Unknown")
_HEAD: Final = [
    "NAME",
    "PARENT",
    "STATE",
    "WEIGHT",
    *(one.upper() for one in _PHASES),
    "ALLOCATED",
    "DESERVED",
    "LIMIT",
]


def create(
    *,
    name: str,
    weight: int,
    parent: str,
    priority: int | None,
    reclaimable: bool,
    guarantee: str,
    deserved: str,
    capability: str,
    as_json: bool,
    **server: Any,
) -> None:
    """Create a queue."""
    spec: Object = {"weight": weight, "reclaimable": reclaimable}
    if parent:
        spec["parent"] = parent
    if priority is not None:
        spec["priority"] = priority
    for field, text in (("deserved", deserved), ("capability", capability)):
        if text:
            spec[field] = batch_jobs.parse_amounts(text)
    if guarantee:
        spec["guarantee"] = {"resource": batch_jobs.parse_amounts(guarantee)}
    made = {"apiVersion": f"{kinds.SCHEDULING}/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    created = session.at(endpoints.own_cluster(**server), lambda client: client.create(kinds.QUEUES, made))
    if as_json:
        output.document(created)
    else:
        click.echo(f"queue.scheduling.volcano.sh/{name} created")


def list_(*, as_json: bool, **server: Any) -> None:
    """List queues."""

    async def work(client: Client) -> tuple[list[Object], list[Object]]:
        return (await client.list(kinds.QUEUES)).items, (await client.list(kinds.POD_GROUPS)).items

    queues, groups = session.at(endpoints.nearest(**server), work)
    counts = {meta.name(one): _counts(meta.name(one), groups) for one in queues}
    if as_json:
        output.document([{**one, "groups": counts[meta.name(one)]} for one in queues])
        return
    rows = [_row(one, counts[meta.name(one)]) for one in sorted(queues, key=meta.name)]
    output.table(_HEAD, rows, right=("WEIGHT", *(one.upper() for one in _PHASES)))


def _counts(queue: str, groups: Sequence[Object]) -> dict[str, int]:
    found = Counter(
        str((one.get("status") or {}).get("phase") or "Pending")
        for one in groups
        if (one["spec"].get("queue") or kinds.DEFAULT_QUEUE) == queue
    )
    return dict(found)


def _row(queue: Object, counts: Mapping[str, int]) -> list[str]:
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    return [
        meta.name(queue),
        spec.get("parent") or "-",
        status.get("state") or "Open",
        str(spec.get("weight") or 1),
        *(str(counts.get(phase, 0)) for phase in _PHASES),
        *(_amounts(part) for part in (status.get("allocated"), spec.get("deserved"), spec.get("capability"))),
    ]


def _amounts(amounts: Mapping[str, Any] | None) -> str:
    shown = [f"{name}={value}" for name, value in sorted((amounts or {}).items()) if str(value) != "0"]
    return ",".join(shown) or "-"


def get(*, name: str, as_json: bool, **server: Any) -> None:
    """Show a queue with its groups."""

    async def work(client: Client) -> tuple[Object, list[Object]]:
        queue = await _found(client, name)
        groups = (await client.list(kinds.POD_GROUPS)).items
        return queue, [one for one in groups if (one["spec"].get("queue") or kinds.DEFAULT_QUEUE) == name]

    queue, groups = session.at(endpoints.nearest(**server), work)
    if as_json:
        output.document({"queue": queue, "groups": groups})
        return
    output.table(_HEAD, [_row(queue, _counts(name, groups))])
    if groups:
        click.echo()
        now = system.SystemClock().now()
        rows = [_group(one, now=now) for one in sorted(groups, key=lambda one: meta.metadata(one)["creationTimestamp"])]
        output.table(["NAMESPACE", "GROUP", "PHASE", "MIN", "RUNNING", "NEEDS", "AGE", "WHY"], rows)


def _group(group: Object, *, now: float) -> list[str]:
    spec, status = group["spec"], group.get("status") or {}
    why = next(
        (
            str(one.get("message") or one.get("reason") or "")
            for one in reversed(status.get("conditions") or ())
            if one.get("type") == "Unschedulable" and one.get("status") == "True"
        ),
        "",
    )
    return [
        meta.namespace(group),
        meta.name(group),
        status.get("phase") or "Pending",
        str(spec.get("minMember", 0)),
        str(status.get("running", 0)),
        _amounts(spec.get("minResources")),
        batch_jobs.age(group, now=now),
        why,
    ]


def operate(*, name: str, action: str, weight: int | None, **server: Any) -> None:
    """Open, close or change a queue."""
    if (action == "update") is (weight is None):
        raise errors.UserError("--weight goes with --action update, and only with it")

    async def work(client: Client) -> str:
        queue = await _found(client, name)
        if action == "update":
            await client.patch(kinds.QUEUES, name, {"spec": {"weight": weight}})
            return "updated"
        order = batch_jobs.command(queue, _ACTIONS[action], "Queue", _NAMESPACE)
        await client.create(kinds.COMMANDS, order)
        return "is being opened" if action == "open" else "is being closed"

    click.echo(f"queue.scheduling.volcano.sh/{name} {session.at(endpoints.own_cluster(**server), work)}")


def delete(*, name: str, **server: Any) -> None:
    """Delete a queue."""

    async def work(client: Client) -> None:
        await _found(client, name)
        await client.delete(kinds.QUEUES, name)

    session.at(endpoints.own_cluster(**server), work)
    click.echo(f"queue.scheduling.volcano.sh/{name} deleted")


async def _found(client: Client, name: str) -> Object:
    try:
        return await client.get(kinds.QUEUES, name)
    except api_errors.NotFound:
        raise errors.UserError(f"there is no queue {name}", "see 'rota queue list'") from None
