"""Asks the webhooks of ResourceInterpreterWebhookConfigurations, with upstream's request and response."""

import base64
import functools
import ssl
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import aiohttp
import msgspec

from rota.api import meta
from rota.api.patches import json_patch
from rota.federation.customization import operations
from rota.federation.customization.operations import CannotInterpret, Found, Operation, Question
from rota.kit import bodies

Object: TypeAlias = Mapping[str, Any]

_VERSION: Final = "v1alpha1"
_DEFAULT_S: Final = 10.0
_MOST_S: Final = 30.0
_MOST_BYTES: Final = 16 * 1024 * 1024


class Webhooks:
    """A `Source` of the webhooks in the configurations that `configurations` returns at the time of a question."""

    def __init__(self, configurations: Callable[[], Iterable[Object]]) -> None:
        self._configurations: Final = configurations
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(self, question: Question, /) -> Found | None:
        """See `Source.ask`."""
        for configuration in sorted(self._configurations(), key=meta.name):
            for hook in configuration.get("webhooks") or ():
                if any(matches(rule, question) for rule in hook.get("rules") or ()):
                    return Found(answer(question, await self._asked(hook, question)))
        return None

    async def _asked(self, hook: Object, question: Question) -> Object:
        name = f"webhook {hook.get('name')}"
        client: Object = hook.get("clientConfig") or {}
        if _VERSION not in (hook.get("interpreterContextVersions") or ()):
            raise CannotInterpret(f"{name} takes none of the versions that are sent here: {_VERSION}")
        url = client.get("url")
        if not url:
            raise CannotInterpret(f"{name}: clientConfig.service is not supported; give clientConfig.url")
        identity = str(uuid.uuid4())
        seconds = min(float(hook.get("timeoutSeconds") or _DEFAULT_S), _MOST_S)
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.post(
                url,
                data=msgspec.json.encode(request(question, identity)),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=_context(client.get("caBundle")),
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
            ) as reply:
                if reply.status != 200:
                    raise CannotInterpret(f"{name} answered {reply.status}")
                said = msgspec.json.decode(await bodies.read(reply.content, _MOST_BYTES))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, CannotInterpret):
                raise
            raise CannotInterpret(f"{name}: {str(error) or type(error).__name__}") from error
        response = said.get("response") if isinstance(said, dict) else None
        if not isinstance(response, dict) or response.get("uid") != identity:
            raise CannotInterpret(f"{name}: the answer is not for this question")
        if not response.get("successful"):
            status = response.get("status") or {}
            raise CannotInterpret(
                f"{name} failed: {status.get('message') or status.get('code') or 'it does not say why'}"
            )
        return response


@functools.lru_cache(maxsize=64)
def _context(bundle: str | None) -> ssl.SSLContext:
    """Trust the bundle of the configuration, or else what the machine trusts.

    Kept, because reading the machine's certificates takes a while, and connections with one context are used again.
    """
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)


def matches(rule: Object, question: Question) -> bool:
    """Whether a rule is about the question."""
    group, _, version = question.kind[0].rpartition("/")
    wanted = (
        ("operations", question.operation.value),
        ("apiGroups", group),
        ("apiVersions", version),
        ("kinds", question.kind[1]),
    )
    return all("*" in (rule.get(member) or ()) or value in (rule.get(member) or ()) for member, value in wanted)


def request(question: Question, identity: str) -> dict[str, Any]:
    """The body of a request."""
    group, _, version = question.kind[0].rpartition("/")
    metadata: Object = question.object.get("metadata") or {}
    asked: dict[str, Any] = {
        "uid": identity,
        "kind": {"group": group, "version": version, "kind": question.kind[1]},
        "name": metadata.get("name") or "",
        "namespace": metadata.get("namespace") or "",
        "operation": question.operation.value,
        "object": question.object,
    }
    if question.operation is Operation.RETENTION:
        asked["observedObject"] = question.observed
    if question.operation is Operation.REVISION:
        asked["replicas"] = question.replicas
    if question.operation is Operation.AGGREGATION:
        asked["aggregatedStatus"] = list(question.items)
    return {"apiVersion": f"config.karmada.io/{_VERSION}", "kind": "ResourceInterpreterContext", "request": asked}


def answer(question: Question, response: Object) -> Any:
    """The answer in a response."""
    match question.operation:
        case Operation.REPLICAS:
            if not isinstance(response.get("replicas"), int):
                raise CannotInterpret(f"{question.where}: the response has no replicas")
            return response["replicas"], operations.as_requirements(response.get("replicaRequirements"), question)
        case Operation.COMPONENTS:
            return operations.as_objects(response.get("components"), question)
        case Operation.DEPENDENCIES:
            return operations.as_objects(response.get("dependencies"), question)
        case Operation.STATUS:
            return operations.as_object(response.get("rawStatus"), question)
        case Operation.HEALTH:
            if not isinstance(response.get("healthy"), bool):
                raise CannotInterpret(f"{question.where}: the response does not say whether it is healthy")
            return response["healthy"]
        case _:
            return _patched(question, response)


def _patched(question: Question, response: Object) -> dict[str, Any]:
    patch, kind = response.get("patch"), response.get("patchType")
    if not patch:
        return dict(question.object)
    if kind != "JSONPatch":
        raise CannotInterpret(f"{question.where}: patches of type {kind!r} are not supported; send a JSONPatch")
    try:
        found = json_patch.apply(dict(question.object), msgspec.json.decode(base64.b64decode(patch)))
    except ValueError as error:
        raise CannotInterpret(f"{question.where}: the patch cannot be applied: {error}") from error
    return operations.as_object(found, question)
