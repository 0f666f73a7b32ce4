"""Writes objects that are all status: what a component reports, without a spec."""

import contextlib
from collections.abc import Mapping
from typing import Any

from rota.api import errors, meta
from rota.client.verbs import Client


async def put_status(client: Client, target: tuple[str, str, str], document: Mapping[str, Any]) -> None:
    """Write the status of a cluster-scoped object, which is created if it is missing."""
    name = meta.name(document)
    try:
        await client.get(target, name)
    except errors.NotFound:
        bare = {key: value for key, value in document.items() if key != "status"}
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(target, bare)
    await client.patch(target, name, {"status": document["status"]}, subresource="status")
