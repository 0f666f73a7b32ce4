"""Keeps aggregated ClusterRoles: their rules are those of all roles that their selectors choose.

A role that is labelled `rbac.authorization.k8s.io/aggregate-to-view: "true"` adds to what viewers may do as soon as it
is there, which is how custom kinds come into `view`, `edit` and `admin`. The rules are written by server-side apply, in
upstream's name: whoever else sets them loses them.
"""

import contextlib
from typing import Final

from rota.api import errors, meta, roles, selectors
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

ROLES: Final = ("rbac.authorization.k8s.io", "v1", "clusterroles")
_MANAGER: Final = "clusterrole-aggregation-controller"


class RoleAggregation:
    """Puts together what roles are made of."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._frame: Final = Reconciler[str](
            client, "role aggregation", self._process, clock=clock, rng=rng, workers=1, metrics=metrics
        )
        self._roles: Final = self._frame.follow(ROLES, self._changed)

    async def run(self) -> None:
        """Keep roles until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        # any role may be part of any other: there are few that are made of others
        for role in self._roles.cache.values():
            if role.get("aggregationRule"):
                self._frame.queue.add(meta.name(role))
        if new is not None and new.get("aggregationRule"):
            self._frame.queue.add(key.name)

    async def _process(self, name: str) -> None:
        role = self._roles.cache.get(name)
        if role is None or not role.get("aggregationRule") or meta.is_deleting(role):
            return
        try:
            wanted = roles.aggregated_rules(role, self._roles.cache.values())
        except selectors.SelectorError as problem:
            log.warning("role not aggregated", role=name, error=str(problem))
            return
        if wanted == (role.get("rules") or []):
            return
        content = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            # an apply would make a role anew that is gone meanwhile
            "metadata": {"name": name, "uid": meta.uid(role)},
            "rules": wanted,
        }
        with contextlib.suppress(errors.Conflict):
            await self._client.apply(ROLES, content, field_manager=_MANAGER, force=True)
