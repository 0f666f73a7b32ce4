"""The APIs of other servers as part of this one: which requests go on to them, their discovery, their availability.

Every server checks all APIs itself and writes the condition `Available` where it differs. Requests for an API that is
not available get 503 without a call of its server. APIs that this server serves itself are never passed on, with the
exception of `metrics.k8s.io`, for which users bring a metrics server.
"""

import asyncio
import contextlib
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from rota.api import errors
from rota.api.identifiers import GroupVersion
from rota.api.kinds import version_rank
from rota.api.users import ADMINISTRATOR, User
from rota.apiserver.aggregation import api_services, backends, front_proxy
from rota.apiserver.aggregation.api_services import API_SERVICES, ApiService, Condition
from rota.apiserver.aggregation.backends import Backends
from rota.apiserver.aggregation.discovered_resources import discovered
from rota.apiserver.aggregation.front_proxy import FrontProxyIdentity, FrontProxySettings
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.http import responses
from rota.apiserver.http.requests import Request
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.service_endpoints import ServiceEndpoints
from rota.kit import logs, tasks

log = logs.get(__name__)

_REPLACEABLE: Final = frozenset({"metrics.k8s.io"})
#: How often an API is checked, and one that is not available.
_CHECK_EVERY_S: Final = 10.0
_CHECK_AGAIN_S: Final = 2.0


class Aggregator:
    """The APIs of other servers; `run` checks them. Implements `discovery.ForeignGroups`."""

    def __init__(
        self,
        registry: ObjectRegistry,
        settings: FrontProxySettings,
        endpoints: ServiceEndpoints,
        rng: random.Random,
    ) -> None:
        clock = registry.clock
        self._registry: Final = registry
        self._settings: Final = settings
        self._scheme: Final = registry.scheme
        self._copy: Final = WatchCache(registry.store, registry.resource(API_SERVICES), clock)
        self._endpoints: Final = endpoints
        self._connections: Final = Backends(FrontProxyIdentity(settings.authority), clock)
        self._rng: Final = rng
        self._known: Final[dict[GroupVersion, ApiService]] = {}
        self._listed: Final[dict[GroupVersion, Mapping[str, Any]]] = {}
        self._changed: Final = asyncio.Event()
        #: Changes with everything that discovery shows.
        self.generation = 0
        self._copy.subscribe(self._note)

    async def start(self, beside: tasks.Supervisor) -> None:
        """Publish what servers of APIs trust, and follow APIServices; returns once they are known."""
        await front_proxy.publish(self._registry, self._settings)
        beside.start("copy of apiservices", self._copy.run)
        beside.start("availability of APIs", self.run)
        await self._copy.ready()

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    def find(self, path: str) -> ApiService | None:
        """The API that a request's path belongs to; None if it is this server's."""
        if not self._known or not path.startswith("/apis/"):
            return None
        segments = path.split("/", 4)
        if len(segments) < 4 or not segments[3]:
            return None
        found = self._known.get(GroupVersion(segments[2], segments[3]))
        return found if found is not None and not self.is_own(found.at) and _is_plain(path) else None

    def is_own(self, at: GroupVersion) -> bool:
        """Whether this server serves an API itself, so that it is not passed on."""
        return at.group not in _REPLACEABLE and bool(self._scheme.in_group_version(at))

    async def answer(self, one: ApiService, request: Request, user: User) -> responses.Answer:
        """The answer of an API's server to an authorized request."""
        if not one.available:
            return responses.text(503, backends.UNAVAILABLE)
        try:
            address = await self._endpoints.address(self._registry, one.namespace, one.service, one.port)
        except LookupError:
            return responses.text(503, backends.UNAVAILABLE)
        return await self._connections.passed_on(one, address, request, user)

    # Discovery

    def groups(self) -> Mapping[str, Sequence[str]]:
        """The versions of each group of other servers, the preferred one first."""
        found: dict[str, list[str]] = {}
        ranked = sorted(self._known.values(), key=lambda one: (-one.version_priority, version_rank(one.at.version)))
        for one in ranked:
            if not self.is_own(one.at):
                found.setdefault(one.at.group, []).append(one.at.version)
        return found

    def discovered(self, at: GroupVersion) -> dict[str, Any] | None:
        """A group version of another server in the aggregated form; None if it is not one."""
        one = self._known.get(at)
        if one is None or self.is_own(at):
            return None
        return discovered(at, self._listed.get(at), fresh=one.available)

    # Availability

    async def run(self) -> None:
        """Check APIs until cancelled."""
        clock = self._registry.clock
        while True:
            self._changed.clear()
            stored = list(self._copy.all())
            passed = await asyncio.gather(*map(self._check, stored))
            if not stored:
                await self._changed.wait()
                continue
            every_s = (_CHECK_EVERY_S if all(passed) else _CHECK_AGAIN_S) * self._rng.uniform(0.9, 1.1)
            with contextlib.suppress(TimeoutError):
                await clock.wait_for(self._changed.wait(), every_s)

    async def _check(self, obj: Object) -> bool:
        """Check one API and write its condition; whether it is available."""
        one = api_services.read(obj)
        condition = api_services.LOCAL if one is None else await self._condition(one)
        now = self._registry.clock.now()
        if api_services.with_condition(obj, condition, now=now) != obj:
            await self._write(obj["metadata"]["name"], condition, now)
        return condition.status == "True"

    async def _condition(self, one: ApiService) -> Condition:
        if self.is_own(one.at):
            return api_services.own(one)
        found = await self._endpoints.find(self._registry, one.namespace, one.service, one.port, fresh=True)
        problem = api_services.unresolved(one, found)
        if problem is not None:
            return problem
        address = await self._endpoints.address(self._registry, one.namespace, one.service, one.port)
        try:
            listed = await self._connections.resources(one, address)
        except backends.CheckFailed as error:
            return api_services.failed(backends.check_url(one, address), str(error))
        if listed != self._listed.get(one.at) and one.at in self._known:
            self._listed[one.at] = listed
            self.generation += 1
        return api_services.PASSED

    async def _write(self, name: str, condition: Condition, now: float) -> None:
        registry = self._registry
        resource = registry.resource(API_SERVICES)
        stored = await registry.find(resource, "", name)
        if stored is None:
            return
        at = Attributes(user=ADMINISTRATOR, verb="update", resource=resource, now=now, subresource="status", name=name)
        with contextlib.suppress(errors.NotFound, errors.Conflict):  # the next check writes it
            await registry.rewrite(at, stored, lambda live: api_services.with_condition(live, condition, now=now))
            log.info("an API's availability changed", api=name, reason=condition.reason, message=condition.message)

    def _note(self, old: Object | None, new: Object | None) -> None:
        before = None if old is None else api_services.read(old)
        after = None if new is None else api_services.read(new)
        if before is not None and (after is None or after.at != before.at):
            self._known.pop(before.at, None)
            self._listed.pop(before.at, None)
        if after is not None:
            self._known[after.at] = after
        if before != after:
            self.generation += 1
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self._changed.set()


def _is_plain(path: str) -> bool:
    """Whether a path means the same to every server: one that resolves `..` would serve what was not authorized."""
    return not any(one in {".", ".."} or "/" in one for one in map(unquote, path.split("/")))
