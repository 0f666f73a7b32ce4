"""Reads results that are too large for a pod's status: files on the machine of their task.

If the file is visible here, on this machine or in a shared folder, it is read. Otherwise a pod on that node prints it.
In both cases the content is checked against the digest that the task signed.
"""

import asyncio
import base64
import binascii
import contextlib
import hashlib
from collections.abc import AsyncGenerator
from typing import Any, Final

from rota.api import errors as api_errors
from rota.api import meta
from rota.api.meta import Object
from rota.client import pods as podding
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Selection
from rota.python import manifests, task_runner

_HOSTNAME: Final = "kubernetes.io/hostname"
#: A larger file does not fit into the log that a worker keeps.
_MOST_BYTES: Final = 16 * 1024 * 1024
#: How long the pod that prints a file may take to start: its node may be gone.
_PATIENCE_S: Final = 120.0


async def text_of(text: str, client: Client, *, namespace: str, node: str) -> str:
    """The text of a value, wherever it is; `Missing` if it cannot be read."""
    place = task_runner.place_of(text)
    if place is None:
        return text
    path, digest = place
    try:
        return (await asyncio.to_thread(task_runner.content, path, digest)).decode()
    except task_runner.Missing:
        if not node:
            raise
    found = await _printed(path, client, namespace=namespace, node=node)
    if hashlib.sha256(found).hexdigest() != digest:
        raise task_runner.Missing(f"{path} on {node} is not there, or not what was written")
    return found.decode()


async def _printed(path: str, client: Client, *, namespace: str, node: str) -> bytes:
    """The content of a file on another machine, up to a size."""
    script = 'size=$(wc -c < "$1") || exit 1; [ "$size" -le "$2" ] || exit 2; exec base64 "$1"'
    command = ["/bin/sh", "-c", script.replace("$(", "$$("), "sh", path, str(_MOST_BYTES)]
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": manifests.fresh_name("rota-fetch"), "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {_HOSTNAME: node},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "process", "command": command}],
        },
    }
    made = await client.create(PODS, pod)
    try:
        async with contextlib.aclosing(_chunks(client, made)) as chunks:
            text = b"".join([chunk async for chunk in chunks])
        return base64.b64decode(text)
    except binascii.Error:
        raise task_runner.Missing(f"{path} on {node} cannot be read") from None
    except TimeoutError:
        raise task_runner.Missing(f"{path} is on {node}, where nothing can be started to read it") from None
    finally:
        with contextlib.suppress(api_errors.ApiError, TransportError):
            await client.delete(PODS, meta.name(made), namespace=namespace, grace_period_s=0)


def decoded(secret: Object, key: str) -> str:
    """A text from a Secret."""
    return base64.b64decode((secret.get("data") or {}).get(key, "")).decode()


async def _chunks(client: Client, pod: Object) -> AsyncGenerator[bytes, None]:
    """The output of a pod, from its start to its end."""
    name, namespace = meta.name(pod), meta.namespace(pod)
    watching = client.watch(
        PODS,
        namespace=namespace,
        selection=Selection(fields=f"metadata.name={name}"),
        resource_version=meta.metadata(pod)["resourceVersion"],
    )
    async with asyncio.timeout(_PATIENCE_S), watching as events:
        async for event in events:
            if (event.object.get("status") or {}).get("phase") in {"Running", "Succeeded", "Failed"}:
                break
    async with podding.logs(client, name, namespace=namespace, follow=True) as chunks:
        async for chunk in chunks:
            yield chunk
