"""`rota top`: reads metrics.k8s.io and prints usage beside capacity."""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import amounts, meta, resources
from rota.api import errors as api_errors
from rota.cli import endpoints, output
from rota.cli.commands import session
from rota.cli.commands.cordon import NODES
from rota.client.verbs import Client, Object, Selection
from rota.kit import errors

NODE_METRICS: Final = ("metrics.k8s.io", "v1beta1", "nodes")
POD_METRICS: Final = ("metrics.k8s.io", "v1beta1", "pods")
_AMOUNTS: Final = (resources.CPU, resources.MEMORY)


def top(
    *,
    nodes: bool,
    names: tuple[str, ...],
    namespace: str,
    everywhere: bool,
    labels: str,
    containers: bool,
    sort_by: str,
    as_json: bool,
    **server: Any,
) -> None:
    """Print resource usage."""
    endpoint = endpoints.nearest(**server)
    selection = Selection(labels=labels)

    async def work(client: Client) -> list[dict[str, Any]]:
        try:
            if nodes:
                return await _nodes(client, names, selection)
            where = "" if everywhere else namespace or endpoint.namespace
            return await _pods(client, names, selection, where, containers=containers)
        except (api_errors.NotFound, api_errors.ServiceUnavailable) as error:
            if error.details is not None and error.details.name:
                raise
            raise errors.UserError(
                f"{endpoint.server} has no metrics", "workers measure a moment after they have started"
            ) from error

    rows = session.at(endpoint, work)
    rows.sort(key=lambda row: (-row[sort_by] if sort_by != "name" else 0, row.get("namespace", ""), row["name"]))
    if as_json:
        output.document(rows)
    elif not rows:
        output.note(f"no metrics of {'nodes' if nodes else 'pods'} yet")
    else:
        _show(rows, nodes=nodes, everywhere=everywhere, containers=containers)


async def _nodes(client: Client, names: tuple[str, ...], selection: Selection) -> list[dict[str, Any]]:
    measured = await _measured(client, NODE_METRICS, names, selection, "")
    offers = {meta.name(one): resources.node_allocatable(one) for one in (await client.list(NODES)).items}
    rows = []
    for one in measured:
        used, offered = _amounts(one.get("usage")), offers.get(meta.name(one), {})
        shares = {
            f"{name}_percent": 100 * used[name] // offered[name] if offered.get(name) else None for name in _AMOUNTS
        }
        rows.append({"name": meta.name(one), **used, **shares})
    return rows


async def _pods(
    client: Client, names: tuple[str, ...], selection: Selection, namespace: str, *, containers: bool
) -> list[dict[str, Any]]:
    rows = []
    for one in await _measured(client, POD_METRICS, names, selection, namespace):
        front = {"namespace": meta.namespace(one), "name": meta.name(one)}
        if containers:
            rows += [{**front, "container": name, **used} for name, used in _parts(one).items()]
        else:
            rows.append({**front, **usage_of_pod(one)})
    return rows


def _parts(measured: Object) -> dict[str, dict[str, int]]:
    return {part["name"]: _amounts(part.get("usage")) for part in measured.get("containers") or ()}


def usage_of_pod(measured: Object) -> dict[str, int]:
    """The usage of all containers of a pod, from its metrics."""
    parts = _parts(measured)
    return {name: sum(used[name] for used in parts.values()) for name in _AMOUNTS}


async def _measured(
    client: Client, target: tuple[str, str, str], names: tuple[str, ...], selection: Selection, namespace: str
) -> list[Object]:
    if names:
        return [await client.get(target, name, namespace=namespace) for name in names]
    return (await client.list(target, namespace=namespace, selection=selection)).items


def _amounts(usage: Mapping[str, Any] | None) -> dict[str, int]:
    """CPU in thousandths, memory in bytes."""
    return {name: resources.amount(name, (usage or {}).get(name) or "0") for name in _AMOUNTS}


def _show(rows: list[dict[str, Any]], *, nodes: bool, everywhere: bool, containers: bool) -> None:
    if nodes:
        columns = ["NAME", "CPU", "CPU%", "MEMORY", "MEMORY%"]
        cells = [
            [
                row["name"],
                f"{row['cpu']}m",
                _percent(row["cpu_percent"]),
                amounts.human_bytes(row["memory"]),
                _percent(row["memory_percent"]),
            ]
            for row in rows
        ]
    else:
        front = [*(["namespace"] if everywhere else []), "name", *(["container"] if containers else [])]
        columns = [*map(str.upper, front), "CPU", "MEMORY"]
        cells = [[*(row[name] for name in front), f"{row['cpu']}m", amounts.human_bytes(row["memory"])] for row in rows]
    output.table(columns, cells, right=["CPU", "CPU%", "MEMORY", "MEMORY%"])


def _percent(share: int | None) -> str:
    return "?" if share is None else f"{share}%"
