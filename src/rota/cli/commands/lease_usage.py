"""`rota top leases`: the leased workers of Python clients, with what they use."""

from typing import Any, Final

from rota.api import amounts, meta
from rota.api import errors as api_errors
from rota.cli import endpoints, output
from rota.cli.commands import resource_usage, session
from rota.client.pods import PODS
from rota.client.verbs import Client, Object, Selection

#: The label of leases, whose value is the digest of their shape; and that of their client.
LEASE_LABEL: Final = "rota.dev/lease"
SESSION_LABEL: Final = "rota.dev/session"


def top(
    *,
    names: tuple[str, ...],
    namespace: str,
    everywhere: bool,
    labels: str,
    sort_by: str,
    as_json: bool,
    **server: Any,
) -> None:
    """Print all leases with their client, shape, node and usage."""
    server.pop("containers", None)
    endpoint = endpoints.nearest(**server)

    async def work(client: Client) -> list[dict[str, Any]]:
        where = "" if everywhere else namespace or endpoint.namespace
        selection = Selection(labels=",".join(filter(None, (LEASE_LABEL, labels))))
        pods = (await client.list(PODS, namespace=where, selection=selection)).items
        try:
            measured = (await client.list(resource_usage.POD_METRICS, namespace=where, selection=selection)).items
        except (api_errors.NotFound, api_errors.ServiceUnavailable):
            measured = []  # workers measure a moment after they have started
        used = {(meta.namespace(one), meta.name(one)): resource_usage.usage_of_pod(one) for one in measured}
        return [_row(pod, used.get((meta.namespace(pod), meta.name(pod)))) for pod in pods]

    rows = [one for one in session.at(endpoint, work) if not names or one["name"] in names or one["lease"] in names]
    rows.sort(key=lambda row: (-(row[sort_by] or 0) if sort_by != "name" else 0, row["namespace"], row["name"]))
    if as_json:
        output.document(rows)
    elif not rows:
        output.note("no leases; a Python client takes them when it submits calls")
    else:
        _show(rows, everywhere=everywhere)


def _row(pod: Object, used: dict[str, int] | None) -> dict[str, Any]:
    labels, status = meta.labels(pod), pod.get("status") or {}
    container = ((pod.get("spec") or {}).get("containers") or [{}])[0]
    requests = (container.get("resources") or {}).get("requests") or {}
    return {
        "namespace": meta.namespace(pod),
        "name": meta.name(pod),
        "lease": labels.get("batch.kubernetes.io/job-name", ""),
        "client": labels.get(SESSION_LABEL, ""),
        "shape": labels.get(LEASE_LABEL, ""),
        "node": (pod.get("spec") or {}).get("nodeName") or "",
        "phase": str(status.get("phase") or ""),
        "requests": {name: str(amount) for name, amount in requests.items()},
        "cpu": None if used is None else used["cpu"],
        "memory": None if used is None else used["memory"],
    }


def _show(rows: list[dict[str, Any]], *, everywhere: bool) -> None:
    front = [*(["namespace"] if everywhere else []), "lease", "client", "shape", "node", "phase"]
    cells = [
        [
            *(row[name] for name in front),
            ",".join(f"{name}={amount}" for name, amount in row["requests"].items()),
            "?" if row["cpu"] is None else f"{row['cpu']}m",
            "?" if row["memory"] is None else amounts.human_bytes(row["memory"]),
        ]
        for row in rows
    ]
    output.table([*map(str.upper, front), "REQUESTS", "CPU", "MEMORY"], cells, right=["CPU", "MEMORY"])
