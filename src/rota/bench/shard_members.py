"""Waits until the schedulers of a benchmark share the pods."""

import asyncio
from typing import Final

from rota.client.verbs import Client
from rota.scheduler.service import Scheduler
from rota.scheduler.sharding.instance_objects import SHARD_MAPS

_LONGEST_S: Final = 300.0
_LOOK_S: Final = 0.05


async def settled(client: Client, name: str, number: int) -> None:
    """Wait until a shard map has this many members."""
    async with asyncio.timeout(_LONGEST_S):
        while True:
            for one in (await client.list(SHARD_MAPS)).items:
                members = (one.get("status") or {}).get("members") or ()
                if one["metadata"]["name"] == name and len(members) == number:
                    return
            await asyncio.sleep(_LOOK_S)


async def active(scheduler: Scheduler) -> None:
    """Wait until a scheduler decides its share."""
    async with asyncio.timeout(_LONGEST_S):
        while True:
            if scheduler.shard is not None and scheduler.shard.active:
                return
            await asyncio.sleep(_LOOK_S)
