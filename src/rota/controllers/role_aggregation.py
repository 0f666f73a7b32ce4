"""Maintains aggregated ClusterRoles: their rules are the union of the roles that their selectors match.

A role with the label `rbac.authorization.k8s.io/aggregate-to-view: "true"` extends `view` as soon as it exists; custom
kinds are added to `view`, `edit` and `admin` in this way. The rules are written by server-side apply with upstream's
field manager, so values that other writers set are overwritten.
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
    """Maintains the rules of aggregated roles."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._frame: Final = Reconciler[str](
            client, "role aggregation", self._process, clock=clock, rng=rng, workers=1, metrics=metrics
        )
        self._roles: Final = self._frame.follow(ROLES, self._changed)

    async def run(self) -> None:
        """Maintain roles until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        # any role may be part of any aggregated role, of which there are few
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
            # an apply would recreate a role that was deleted meanwhile
            "metadata": {"name": name, "uid": meta.uid(role)},
            "rules": wanted,
        }
        with contextlib.suppress(errors.Conflict):
            await self._client.apply(ROLES, content, field_manager=_MANAGER, force=True)
