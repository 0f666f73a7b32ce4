"""`rota describe`: an object with what it means; so far nodes, with what of them is sold."""

import contextlib
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
from rota.columns import vocabulary
from rota.columns.objects import MalformedObjectError
from rota.kit import errors, system
from rota.scheduler.cache import accounting
from rota.scheduler.cache.accounting import Account, Share
from rota.scheduler.cache.scheduler_cache import SchedulerCache

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
    """What a node offers, what the pods that are bound to it take, and who they are; by the scheduler's own account."""
    cache = SchedulerCache()
    cache.set_node(vocabulary.read_node(await client.get(NODES, name)))
    living = f"spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed"
    phases: dict[str, str] = {}
    for pod in (await client.list(PODS, selection=Selection(fields=living))).items:
        # What cannot be read is not counted by the scheduler either.
        with contextlib.suppress(MalformedObjectError):
            cache.see(cache.vocabulary.pod(pod))
            phases[pod["metadata"]["uid"]] = (pod.get("status") or {}).get("phase") or "Pending"
    account = accounting.account(cache.cluster.by_name[name])
    pods = [_share(share, phases[share.uid]) for share in account.shares]
    return {
        "name": name,
        "unschedulable": account.unschedulable,
        "resources": [_resource(account, resource) for resource in sorted(account.free)],
        "pods": sorted(pods, key=lambda each: (each["namespace"], each["name"])),
    }


def _share(share: Share, phase: str) -> dict[str, Any]:
    namespace, _, name = share.pod.partition("/")
    cpu, memory = (share.requests.get(resource, 0) for resource in (resources.CPU, resources.MEMORY))
    return {
        "namespace": namespace,
        "name": name,
        "cpu": resources.shown(resources.CPU, cpu),
        "memory": resources.shown(resources.MEMORY, memory),
        "phase": phase,
    }


def _resource(account: Account, resource: str) -> dict[str, Any]:
    offered, taken = account.allocatable.get(resource, 0), account.requested.get(resource, 0)
    return {
        "resource": resource,
        "allocatable": resources.shown(resource, offered),
        "requested": resources.shown(resource, taken),
        "free": resources.shown(resource, account.free[resource]),
        "percent": 100 * taken // offered if offered else 0,
    }
