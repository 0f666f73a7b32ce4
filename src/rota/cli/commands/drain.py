"""`rota drain`: cordons a node, evicts pods by the plan of `client.drain_plan`, and waits until they are gone."""

import asyncio
from typing import Any, Final

import click

from rota.api import errors as api_errors
from rota.api import meta
from rota.cli import endpoints, output
from rota.cli.commands import cordon, session
from rota.client import drain_plan, pods
from rota.client.drain_plan import Allowance, Plan
from rota.client.pods import PODS
from rota.client.verbs import Client, Object, Selection
from rota.kit import errors, system

#: The retry interval after a budget's refusal, and the poll interval while a pod terminates.
_AGAIN_S: Final = 1.0
#: Concurrent evictions.
_AT_ONCE: Final = 16


def drain(
    *,
    node: str,
    ignore_daemonsets: bool,
    delete_emptydir_data: bool,
    force: bool,
    grace_period: int | None,
    timeout: float,
    labels: str,
    dry_run: bool,
    **server: Any,
) -> None:
    """Drain a node."""
    allowance = Allowance(ignore_daemonsets=ignore_daemonsets, delete_emptydir_data=delete_emptydir_data, force=force)

    async def work(client: Client) -> None:
        await cordon.set_unschedulable(client, node, unschedulable=True, dry_run=dry_run)
        selection = Selection(fields=f"spec.nodeName={node}", labels=labels)
        plan = drain_plan.plan((await client.list(PODS, selection=selection)).items, allowance)
        _tell(plan, node)
        if dry_run:
            for pod in plan.evict:
                click.echo(f"pod/{meta.name(pod)} would be evicted (dry run)")
            return
        evicting = _evict_all(client, plan, grace_period)
        try:
            await (system.SystemClock().wait_for(evicting, timeout) if timeout else evicting)
        except TimeoutError:
            raise errors.UserError(
                f"node {node} was not empty within {timeout:g} s",
                f"it stays cordoned; see 'rota describe node {node}' for who is left",
            ) from None
        click.echo(f"node/{node} drained")

    session.at(endpoints.own_cluster(**server), work)


def _tell(plan: Plan, node: str) -> None:
    """Print which pods stay and what is lost; `UserError` if a pod prevents the drain."""
    if plan.refused:
        faults = [f"{meta.qualified_name(pod)} {why}" for pod, why, _ in plan.refused]
        needed = " ".join(dict.fromkeys(option for _, _, option in plan.refused))
        raise errors.UserError(
            f"nothing is evicted from {node}, which stays cordoned: {'; '.join(faults)}", f"allow it with {needed}"
        )
    for pod, why in plan.stay:
        output.note(f"{meta.qualified_name(pod)} stays: {why}")
    for pod, why in plan.lost:
        output.note(f"{meta.qualified_name(pod)} {why}")


async def _evict_all(client: Client, plan: Plan, grace_period: int | None) -> None:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(pod: Object) -> None:
        async with places:
            await _evict(client, pod, grace_period)
        advance(1)

    with output.progress("evicting", total=len(plan.evict)) as advance:
        await session.together(map(one, plan.evict))


async def _evict(client: Client, pod: Object, grace_period: int | None) -> None:
    """Evict a pod once its budgets allow it, and wait until it is gone."""
    clock, name, namespace = system.SystemClock(), meta.name(pod), meta.namespace(pod)
    # Not retried by the client: a budget's refusal has `Retry-After` too, and the user should see the reason.
    once = client.with_settings(retry=False)
    said = ""
    while True:
        try:
            await pods.evict(once, name, namespace=namespace, uid=meta.uid(pod), grace_period_s=grace_period)
        except api_errors.TooManyRequests as error:
            why = session.refusal(error)
            if why != said:
                output.note(f"{meta.qualified_name(pod)} waits: {why}")
                said = why
            await clock.sleep(max(_AGAIN_S, float(error.retry_after_seconds or 0)))
        except (api_errors.NotFound, api_errors.Conflict):
            return  # gone; its name may be in use again
        else:
            break
    while await _is_there(client, pod):
        await clock.sleep(_AGAIN_S / 4)
    click.echo(f"pod/{name} evicted")


async def _is_there(client: Client, pod: Object) -> bool:
    try:
        found = await client.get(PODS, meta.name(pod), namespace=meta.namespace(pod))
    except api_errors.NotFound:
        return False
    return meta.uid(found) == meta.uid(pod)
