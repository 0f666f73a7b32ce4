"""Policies and webhooks of users for requests with handlers of their own: bindings, evictions, tokens, connections.

A POST is the creation of the object in its body, or, for exec and the like, a connection with its parameters as the
object. Every binding of a batch is reviewed as if it had come alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.api.patches import json_values
from rota.apiserver.admission.mutation_rounds import MutationRounds
from rota.apiserver.admission.request_matching import Operation
from rota.apiserver.admission.reviewed_request import ReviewContext, ReviewedRequest
from rota.apiserver.admission.validating_policies import ValidatingPolicies
from rota.apiserver.admission.webhooks import ValidatingWebhooks
from rota.apiserver.interfaces import (
    Attributes,
    Object,
    Registry,
    Reply,
    Stream,
    SubresourceHandler,
    SubresourceRequest,
    Tunnel,
)

_PODS: Final = GroupResource("", "pods")
_BINDING: Final = "binding"
#: Subresources that connect to something; all other handlers create what is posted.
_CONNECTIONS: Final = frozenset({"attach", "exec", "portforward", "proxy"})
_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_TOGETHER: Final = 64
_CHANGED: Final = (
    "a policy or webhook has changed the parameters of a connection, which is not supported; it may refuse it"
)
_IN_COMPANY: Final = "not bound because the batch is atomic and others of its pods cannot be bound"


class SubresourceReviews:
    """Reviews requests before their handlers run."""

    def __init__(
        self,
        context: ReviewContext,
        rounds: MutationRounds,
        policies: ValidatingPolicies,
        validating: ValidatingWebhooks,
    ) -> None:
        self._context: Final = context
        self._rounds: Final = rounds
        self._policies: Final = policies
        self._validating: Final = validating

    def handler(self, inner: SubresourceHandler) -> SubresourceHandler:
        """A handler whose requests are reviewed first."""
        return _Reviewed(self, inner)

    def batches(self, inner: SubresourceHandler) -> SubresourceHandler:
        """A handler of batches of bindings, each of which is reviewed first."""
        return _ReviewedBatches(self, inner)

    def concerns(self, plural: str, subresource: str) -> bool:
        """Whether a policy or webhook may be about a resource or subresource."""
        return (
            self._policies.concerns(plural, subresource)
            or self._rounds.concerns(plural, subresource)
            or self._validating.table.concerns(plural, subresource)
        )

    async def review(self, at: Attributes, obj: Object, what: Operation) -> None:
        """Change the object of a request as policies and webhooks say, or refuse the request."""
        request, progress = (
            ReviewedRequest(self._context, at, obj, None, what=what, mutating=True),
            self._rounds.begin(),
        )
        if await self._rounds.mutate(request, progress):
            await self._rounds.mutate(request, progress, again=True)
        final = ReviewedRequest(self._context, at, obj, None, what=what)
        if self._policies.active:
            await self._policies.review(final, obj)
        await self._validating.review(final)


class _Reviewed:
    def __init__(self, reviews: SubresourceReviews, inner: SubresourceHandler) -> None:
        self._reviews: Final = reviews
        self._inner: Final = inner

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply | Stream | Tunnel:
        """Review the request, then handle it."""
        at = request.at
        if self._reviews.concerns(at.resource.plural, at.subresource):
            if at.subresource in _CONNECTIONS:
                parameters = _connection(request)
                given = json_values.copy(parameters)
                await self._reviews.review(at, parameters, Operation.CONNECT)
                if parameters != given:
                    # Handlers read the request itself; without this the client would get what validation did not see.
                    raise errors.internal_error(_CHANGED)
            elif request.body is not None:
                if at.namespace:
                    request.body.setdefault("metadata", {})["namespace"] = at.namespace
                await self._reviews.review(at, request.body, Operation.CREATE)
        return await self._inner.handle(request, registry)


class _ReviewedBatches:
    def __init__(self, reviews: SubresourceReviews, inner: SubresourceHandler) -> None:
        self._reviews: Final = reviews
        self._inner: Final = inner

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply | Stream | Tunnel:
        """Bind the pods whose bindings are admitted."""
        bindings = (request.body or {}).get("bindings") or []
        if not self._reviews.concerns("pods", _BINDING):
            return await self._inner.handle(request, registry)
        room = asyncio.Semaphore(_TOGETHER)
        refusals = await asyncio.gather(*(self._refusal(request.at, one, registry, room) for one in bindings))
        if not any(refusals):
            return await self._inner.handle(request, registry)
        if (request.body or {}).get("atomic"):
            alone = errors.conflict(GroupResource("", "pods/binding"), "", _IN_COMPANY)
            verdicts = [_verdict(one, refusal or alone) for one, refusal in zip(bindings, refusals, strict=True)]
            return Reply(object={**(request.body or {}), "bound": 0, "verdicts": verdicts}, code=201)
        admitted = [one for one, refusal in zip(bindings, refusals, strict=True) if refusal is None]
        reply = await self._inner.handle(
            replace(request, body={**(request.body or {}), "bindings": admitted}), registry
        )
        assert isinstance(reply, Reply), "a batch is answered with an object"
        return Reply(object=_merged(request.body or {}, bindings, refusals, reply.object), code=reply.code)

    async def _refusal(
        self, at: Attributes, binding: Object, registry: Registry, room: asyncio.Semaphore
    ) -> errors.ApiError | None:
        metadata = binding.get("metadata") or {}
        alone = replace(
            at,
            resource=registry.resource(_PODS),
            subresource=_BINDING,
            namespace=metadata.get("namespace") or "",
            name=metadata.get("name") or "",
        )
        typed = {"apiVersion": "v1", "kind": "Binding", **binding}
        async with room:
            try:
                await self._reviews.review(alone, typed, Operation.CREATE)
            except errors.ApiError as refusal:
                return refusal
        binding.update({name: item for name, item in typed.items() if name not in ("apiVersion", "kind")})
        return None


def _merged(
    batch: Mapping[str, Any],
    bindings: Sequence[Object],
    refusals: Sequence[errors.ApiError | None],
    answered: Object,
) -> Object:
    """The answer to a batch, with the refusals of reviews in their places."""
    verdicts = iter(answered["verdicts"])
    return {
        **batch,
        "bound": answered["bound"],
        "verdicts": [
            next(verdicts) if refusal is None else _verdict(one, refusal)
            for one, refusal in zip(bindings, refusals, strict=True)
        ],
    }


def _verdict(binding: Object, refusal: errors.ApiError) -> Object:
    metadata = binding.get("metadata") or {}
    return {
        "namespace": metadata.get("namespace") or "",
        "name": metadata.get("name") or "",
        "status": refusal.to_wire(),
    }


def _connection(request: SubresourceRequest) -> Object:
    """The parameters of a connection as an object."""
    part = request.at.resource.subresources[request.at.subresource]
    given = parse_qsl(request.raw_query.decode("latin-1"), keep_blank_values=True)
    found: Object = {"kind": part.kind.kind, "apiVersion": part.kind.api_version}
    if request.at.subresource == "proxy":
        return {**found, "path": request.tail} if request.tail else found
    # As handlers do: the first value of a parameter counts.
    found |= {name: True for name in _FLAGS if request.query.get(name) in _TRUE}
    if container := request.query.get("container"):
        found["container"] = container
    for name, value in given:
        if name == "command":
            found.setdefault(name, []).append(value)
        elif name == "ports":
            found.setdefault(name, []).extend(int(one) for one in value.split(",") if one.isdecimal())
    return found
