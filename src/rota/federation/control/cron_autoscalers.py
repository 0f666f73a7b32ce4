"""CronFederatedHPAs: set the replicas of a template, or the bounds of a FederatedHPA, by the clock."""

import contextlib
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.autoscaling import cron_rules
from rota.federation.member import connections
from rota.federation.member.served_kinds import NotServed, Types
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)


class CronAutoscalers:
    """Reconciles a CronFederatedHPA when it changes and when a time of its rules has come."""

    def __init__(self, client: Client, types: Types, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._types: Final = types
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "cron autoscalers", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._autoscalers: Final = self._frame.follow(kinds.CRON_HPAS, self._changed).cache

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or old.get("spec") != new.get("spec")):
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        # Read anew: its own last write must count as executed.
        try:
            autoscaler = await self._client.get(kinds.CRON_HPAS, key.name, namespace=key.namespace)
        except errors.NotFound:
            return None
        if meta.is_deleting(autoscaler):
            return None
        rules = (autoscaler.get("spec") or {}).get("rules") or ()
        readable, histories = [], []
        for rule in rules:
            now = self._clock.now()
            try:
                at = cron_rules.due(autoscaler, rule, now)
            except cron_rules.NoSchedule as error:
                log.warning("a rule has no schedule", autoscaler=meta.qualified_name(autoscaler), error=str(error))
                moment = times.format_time(now)
                problem = {"scheduleTime": moment, "executionTime": moment, "message": str(error)}
                histories.append(cron_rules.recorded(autoscaler, rule, problem, failed=True, now=now))
                continue
            readable.append(rule)
            execution: dict[str, Any] | None = None
            failed = False
            if at is not None:
                execution, failed = await self._executed(key, autoscaler, rule, at)
            histories.append(cron_rules.recorded(autoscaler, rule, execution, failed=failed, now=now))
        if histories != ((autoscaler.get("status") or {}).get("executionHistories") or []):
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(
                    kinds.CRON_HPAS,
                    key.name,
                    {"status": {"executionHistories": histories}},
                    namespace=key.namespace,
                    subresource="status",
                )
        return cron_rules.wait_s(readable, self._clock.now())

    async def _executed(self, key: Key, autoscaler: Object, rule: Object, at: float) -> tuple[dict[str, Any], bool]:
        """Act on a rule; the entry of its history, and whether it failed."""
        now = times.format_time(self._clock.now())
        entry: dict[str, Any] = {"scheduleTime": times.format_time(at), "executionTime": now}
        reference: Object = autoscaler["spec"]["scaleTargetRef"]
        try:
            target = await self._types.of((reference.get("apiVersion") or "", reference.get("kind") or ""))
            if reference.get("kind") == "FederatedHPA":
                bounds = {"minReplicas": rule.get("targetMinReplicas"), "maxReplicas": rule.get("targetMaxReplicas")}
                wanted = {name: value for name, value in bounds.items() if value is not None}
                entry |= {f"applied{name[0].upper()}{name[1:]}": value for name, value in wanted.items()}
            else:
                wanted = {"replicas": rule.get("targetReplicas")}
                entry["appliedReplicas"] = rule.get("targetReplicas")
            if not wanted or None in wanted.values():
                raise errors.bad_request("the rule says no number of replicas for this target")
            await self._client.patch(target, reference.get("name") or "", {"spec": wanted}, namespace=key.namespace)
        except (errors.ApiError, NotServed) as error:
            return {**{name: entry[name] for name in ("scheduleTime", "executionTime")}, "message": str(error)}, True
        return entry, False
