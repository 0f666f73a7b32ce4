"""`rota describe`: an object with what it means; so far nodes, with what of them is sold."""

from pathlib import Path
from typing import Any, Final

import click

from rota import assembly
from rota.api import errors as api_errors
from rota.api import resources
from rota.cli import endpoints, output
from rota.cli.commands import Command
from rota.client import connecting
from rota.client.endpoints import Endpoint
from rota.client.pods import PODS
from rota.client.transports.contract import TransportError
from rota.client.verbs import Client, Selection
from rota.kit import errors, system

NODES: Final = ("", "v1", "nodes")


@click.command(
    "describe",
    cls=Command,
    examples=[
        ("rota describe node n1", "what the node offers, what its pods take, and what is left"),
        ("rota describe node n1 --json", "the same for programs"),
    ],
)
@click.argument("kind", type=click.Choice(["node"]))
@click.argument("name")
@endpoints.server_options
@output.json_option
def command(
    *, kind: str, name: str, kubeconfig_file: Path | None, context: str, server: str | None, as_json: bool
) -> None:
    """Show a node as the scheduler accounts for it.

    Allocatable is all that the node has for pods; requested is the sum over the pods that are bound to it, whether they
    run already or not. A pod fits if its request is no more than what is left, whatever is used in truth.
    """
    endpoint = endpoints.chosen(kubeconfig_file=kubeconfig_file, context=context, server=server)
    facts = assembly.run(_describe(endpoint, name))
    if as_json:
        output.document(facts)
        return
    click.echo(f"Node {facts['name']}{' (cordoned)' if facts['unschedulable'] else ''}")
    rows = [
        [each["resource"], each["allocatable"], each["requested"], each["free"], f"{each['percent']}%"]
        for each in facts["resources"]
    ]
    amounts = ["ALLOCATABLE", "REQUESTED", "FREE", "SOLD"]
    output.table(["RESOURCE", *amounts], rows, right=amounts)
    click.echo()
    output.table(
        ["NAMESPACE", "POD", "CPU", "MEMORY", "PHASE"],
        [[each["namespace"], each["name"], each["cpu"], each["memory"], each["phase"]] for each in facts["pods"]],
        right=["CPU", "MEMORY"],
    )


async def _describe(endpoint: Endpoint, name: str) -> dict[str, Any]:
    clock, chance = system.SystemClock(), system.chance()
    async with connecting.to_server(endpoint, clock=clock, chance=chance) as client:
        try:
            return await facts_about(client, name)
        except api_errors.NotFound:
            raise errors.UserError(f"there is no node {name!r}", "see `kubectl get nodes`") from None
        except (api_errors.ApiError, TransportError) as error:
            raise errors.UserError(f"{endpoint.server} does not answer as it should: {error}") from error


async def facts_about(client: Client, name: str) -> dict[str, Any]:
    """What a node offers, what the pods that are bound to it take, and who they are."""
    node = await client.get(NODES, name)
    living = f"spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
    bound = (await client.list(PODS, selection=Selection(fields=living))).items
    offered = resources.node_allocatable(node)
    taken: dict[str, int] = {resources.PODS: len(bound)}
    pods = []
    for pod in bound:
        requests = resources.pod_requests(pod, use_status=True)
        for resource, amount in requests.items():
            taken[resource] = taken.get(resource, 0) + amount
        pods.append(
            {
                "namespace": pod["metadata"]["namespace"],
                "name": pod["metadata"]["name"],
                "cpu": _shown(resources.CPU, requests.get(resources.CPU, 0)),
                "memory": _shown(resources.MEMORY, requests.get(resources.MEMORY, 0)),
                "phase": (pod.get("status") or {}).get("phase") or "Pending",
            }
        )
    return {
        "name": name,
        "unschedulable": bool((node.get("spec") or {}).get("unschedulable")),
        "resources": [_account(resource, offered[resource], taken.get(resource, 0)) for resource in sorted(offered)],
        "pods": sorted(pods, key=lambda each: (each["namespace"], each["name"])),
    }


def _account(resource: str, offered: int, taken: int) -> dict[str, Any]:
    return {
        "resource": resource,
        "allocatable": _shown(resource, offered),
        "requested": _shown(resource, taken),
        "free": _shown(resource, offered - taken),
        "percent": 100 * taken // offered if offered else 0,
    }


def _shown(resource: str, amount: int) -> str:
    if resource == resources.CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in {resources.MEMORY, resources.EPHEMERAL_STORAGE} and amount and amount % (1 << 20) == 0:
        return f"{amount >> 20}Mi"
    return str(amount)
