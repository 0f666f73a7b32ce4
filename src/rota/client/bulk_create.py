"""Creates many objects of one kind in few requests.

    for pod, created in zip(pods, await bulk_create.create(client, PODS, pods, namespace="default")):
        if isinstance(created, Exception): ...

Each object has its own result: the created object, or the error. Rota's servers take hundreds in one request
(`?batch=true`); to others one object is sent per request, several concurrently.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.api import errors, meta
from rota.api.errors import ApiError
from rota.client import paths, wire
from rota.client.paths import Target
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client

#: Objects per request: enough to amortise the request, few enough not to block other requests.
PORTION: Final = 256
#: Concurrent requests to servers without batches.
_SINGLES: Final = 16
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A created object."""

    name: str
    namespace: str
    uid: str
    resource_version: str


async def create(
    client: Client, target: Target, objects: Sequence[Mapping[str, Any]], *, namespace: str = ""
) -> list[Created | ApiError | TransportError]:
    """Create objects, all in one namespace or cluster-scoped; returns the result of each, in order.

    If a connection breaks, that error is the result of all objects of the request: they may have been created or not.
    """
    answers: list[Created | ApiError | TransportError] = []
    for start in range(0, len(objects), PORTION):
        portion = objects[start : start + PORTION]
        try:
            answers += await _together(client, target, portion, namespace)
        except (errors.BadRequest, errors.Invalid, errors.UnsupportedMediaType):
            # A server without batches expects a single object, not a list.
            answers += await _singly(client, target, portion, namespace)
        except (ApiError, TransportError) as problem:
            answers += [problem] * len(portion)
    return answers


async def _together(
    client: Client, target: Target, portion: Sequence[Mapping[str, Any]], namespace: str
) -> list[Created | ApiError | TransportError]:
    paths.require_namespace(target, namespace)
    body = await client.request(
        "POST",
        paths.collection(target, namespace),
        query=[("batch", "true"), ("fieldManager", client.settings.field_manager)],
        body=_encode({"items": portion}),
        content_type="application/json",
    )
    verdicts = wire.decode_object(body)["verdicts"]
    if len(verdicts) != len(portion):
        raise errors.InternalError(f"{len(portion)} objects got {len(verdicts)} verdicts")
    return [_answer(one) for one in verdicts]


def _answer(verdict: Mapping[str, Any]) -> Created | ApiError:
    if verdict["status"]["status"] != "Success":
        return errors.from_wire(verdict["status"])
    return Created(
        name=verdict["name"],
        namespace=verdict["namespace"],
        uid=verdict["uid"],
        resource_version=verdict["resourceVersion"],
    )


async def _singly(
    client: Client, target: Target, portion: Sequence[Mapping[str, Any]], namespace: str
) -> list[Created | ApiError | TransportError]:
    room = asyncio.Semaphore(_SINGLES)

    async def one(obj: Mapping[str, Any]) -> Created | ApiError | TransportError:
        async with room:
            try:
                made = await client.create(target, obj, namespace=namespace)
            except (ApiError, TransportError) as problem:
                return problem
        return Created(
            name=meta.name(made),
            namespace=meta.namespace(made),
            uid=meta.uid(made),
            resource_version=meta.metadata(made)["resourceVersion"],
        )

    return list(await asyncio.gather(*map(one, portion)))
