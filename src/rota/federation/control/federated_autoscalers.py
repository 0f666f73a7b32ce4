"""FederatedHPAs: scale a template by the metrics of its pods in all of its clusters.

Metrics of type Resource are read from push members by their `metrics.k8s.io`, and reported by the agents of pull
members; other types are refused in the condition ScalingActive. How many replicas follow from metrics, and how fast,
is decided in `autoscaling/`.
"""

import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api import errors, meta, quantities, selectors, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.federation import bindings, kinds, object_names
from rota.federation.autoscaling import pace, usage
from rota.federation.control import pull_members
from rota.federation.control.requested_metrics import RequestedMetrics
from rota.federation.member import connections, reporting
from rota.federation.member.served_kinds import NotServed, Types
from rota.federation.member_reports import PodUse, Unusable
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

EVERY_S: Final = 15.0
_DOWN_WINDOW_S: Final = 300.0
_REMEMBERED_S: Final = 3600.0
#: How many clusters a condition names.
_MOST_PROBLEMS: Final = 5


class _Unable(Exception):
    """Why an autoscaler does nothing: the type, reason and message of its condition."""

    def __init__(self, condition: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.condition: Final = condition
        self.reason: Final = reason


class _NothingToScale(_Unable):
    """There is no target, or none of its pods: agents need not report about them."""


@dataclass(slots=True)
class _Memory:
    """What an autoscaler recommended and did, by time."""

    recommendations: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def history(self, now: float) -> pace.History:
        """With ages instead of times."""
        self.recommendations = [one for one in self.recommendations if now - one[0] < _REMEMBERED_S]
        self.changes = [one for one in self.changes if now - one[0] < _REMEMBERED_S]
        return pace.History(
            [(now - at, count) for at, count in self.recommendations],
            [(now - at, count) for at, count in self.changes if count > 0],
            [(now - at, -count) for at, count in self.changes if count < 0],
        )


class FederatedAutoscalers:
    """Reconciles each FederatedHPA every few seconds."""

    def __init__(self, client: Client, types: Types, *, clock: Clock, rng: Rng, every_s: float = EVERY_S) -> None:
        self._client: Final = client
        self._types: Final = types
        self._clock: Final = clock
        self._rng: Final = rng
        self._every_s: Final = every_s
        self._frame: Final = Reconciler[Key](
            client, "federated autoscalers", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._autoscalers: Final = self._frame.follow(kinds.FEDERATED_HPAS, self._changed).cache
        self._bindings: Final = self._frame.follow(kinds.BINDINGS, lambda key, old, new: None).cache
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, lambda key, old, new: None).cache
        self._requested: Final = RequestedMetrics(client, self._frame, clock=clock)
        self._memories: Final[dict[Key, _Memory]] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._memories.pop(key, None)
            self._frame.queue.add(key)
        elif old is None or old.get("spec") != new.get("spec"):
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        autoscaler = self._autoscalers.get(key.name, key.namespace)
        if autoscaler is None or meta.is_deleting(autoscaler):
            await self._requested.keep(key, ())
            return None
        try:
            status = await self._scaled(key, autoscaler)
        except _Unable as error:
            if isinstance(error, _NothingToScale):
                await self._requested.keep(key, ())
            now = times.format_time(self._clock.now())
            condition = {"type": error.condition, "status": "False", "reason": error.reason, "message": str(error)}
            conditions = meta.with_condition(meta.conditions(autoscaler), condition, now=now)
            # the kind requires both numbers, before the first reading, too
            before: Object = autoscaler.get("status") or {}
            numbers = {name: before.get(name) or 0 for name in ("currentReplicas", "desiredReplicas")}
            status = {**numbers, "conditions": conditions}
        await self._write(key, autoscaler, status)
        return self._every_s

    async def _write(self, key: Key, autoscaler: Object, status: dict[str, Any]) -> None:
        present: Object = autoscaler.get("status") or {}
        if all((present.get(name) or None) == (value or None) for name, value in status.items()):
            return
        with contextlib.suppress(errors.NotFound):
            await self._client.patch(
                kinds.FEDERATED_HPAS, key.name, {"status": status}, namespace=key.namespace, subresource="status"
            )

    async def _scaled(self, key: Key, autoscaler: Object) -> dict[str, Any]:
        """Scale the target; the autoscaler's status."""
        spec: Object = autoscaler["spec"]
        now = self._clock.now()
        target, template = await self._template(key, spec["scaleTargetRef"])
        current = int((template.get("spec") or {}).get("replicas") or 0)
        memory = self._memories.setdefault(key, _Memory())
        if current == 0:
            raise _NothingToScale("ScalingActive", "ScalingDisabled", "scaling is disabled since the replicas are 0")
        lowest, highest = int(spec.get("minReplicas") or 1), int(spec["maxReplicas"])
        measured: list[dict[str, Any]] = []
        if not lowest <= current <= highest:
            found = pace.into_bounds(current, lowest, highest)
        else:
            pods, values = await self._read(key, template, current, now)
            wanted, measured = _recommended(spec, pods, values, current)
            memory.recommendations.append((now, wanted))
            found = pace.pace(
                spec, memory.history(now), current=current, wanted=wanted, downscale_window_s=_DOWN_WINDOW_S
            )
        last = (autoscaler.get("status") or {}).get("lastScaleTime")
        if found.replicas != current:
            patch = {
                "metadata": {"resourceVersion": meta.metadata(template).get("resourceVersion")},
                "spec": {"replicas": found.replicas},
            }
            try:
                await self._client.patch(target, meta.name(template), patch, namespace=key.namespace)
            except errors.Conflict as error:
                raise _Unable("AbleToScale", "FailedUpdateScale", str(error)) from error
            memory.changes.append((now, found.replicas - current))
            last = times.format_time(now)
        return {
            "observedGeneration": meta.metadata(autoscaler).get("generation"),
            "currentReplicas": current,
            "desiredReplicas": found.replicas,
            "lastScaleTime": last,
            "currentMetrics": measured or None,
            "conditions": _conditions(autoscaler, found, times.format_time(now)),
        }

    async def _template(self, key: Key, reference: Object) -> tuple[Any, Object]:
        kind = (reference.get("apiVersion") or "", reference.get("kind") or "")
        try:
            target = await self._types.of(kind)
            return target, await self._client.get(target, reference.get("name") or "", namespace=key.namespace)
        except (errors.NotFound, NotServed) as error:
            raise _NothingToScale("AbleToScale", "FailedGetScale", f"the target cannot be read: {error}") from error

    async def _read(self, key: Key, template: Object, current: int, now: float) -> tuple[usage.Pods, dict[str, Object]]:
        """The pods of the template in all clusters, and by pod what its containers use."""
        name = object_names.binding(template.get("kind") or "", meta.name(template))
        binding = self._bindings.get(name, key.namespace)
        targets = bindings.targets((binding or {}).get("spec") or {})
        if not targets:
            raise _NothingToScale("ScalingActive", "FailedGetResourceMetric", "the target has no clusters yet")
        labels = str(selectors.from_object((template.get("spec") or {}).get("selector")))
        pods: list[Object] = []
        values: dict[str, Object] = {}
        heard, problems = 0, []
        await self._requested.keep(key, {one.get("name") or "" for one in targets})
        for one in targets:
            cluster = self._clusters.get(one.get("name") or "")
            if cluster is None:
                continue
            try:
                found = await self._use(key, cluster, labels)
            except (errors.ApiError, TransportError, connections.NoConnection, OSError, Unusable) as error:
                log.info("a member gives no metrics", cluster=one.get("name"), error=str(error))
                problems.append(f"{one.get('name')}: {error}")
                continue
            heard += int(one.get("replicas") or 0)
            prefix = f"{one.get('name')}/"
            pods += [{**pod, "metadata": {**pod["metadata"], "name": prefix + meta.name(pod)}} for pod in found.pods]
            values |= {prefix + meta.name(metric): metric for metric in found.metrics}
        if not heard:
            why = "; ".join(["no cluster of the target gives metrics", *problems[:_MOST_PROBLEMS]])
            raise _Unable("ScalingActive", "FailedGetResourceMetric", why)
        total = bindings.sum_of_replicas(targets)
        return usage.Pods(pods, current, heard / total, now), values

    async def _use(self, key: Key, cluster: Object, labels: str) -> PodUse:
        """What the pods of a target use in one cluster."""
        if pull_members.is_pull(cluster):
            return await self._requested.use(cluster, key, labels)
        async with connections.connected(self._client, cluster, clock=self._clock, rng=self._rng) as member:
            return await reporting.pod_use(member, key.namespace, labels)


def _recommended(
    spec: Object, pods: usage.Pods, values: dict[str, Object], current: int
) -> tuple[int, list[dict[str, Any]]]:
    """The most that any metric asks for; while one cannot be read, replicas are not reduced."""
    answers: list[int] = []
    measured: list[dict[str, Any]] = []
    problems: list[str] = []
    for metric in spec.get("metrics") or ({"type": "Resource", "resource": _DEFAULT_METRIC},):
        try:
            found, reading = _of_metric(metric, pods, values)
            answers.append(found)
            measured.append(reading)
        except usage.NotMeasured as error:
            problems.append(str(error))
    if not answers:
        raise _Unable("ScalingActive", "FailedGetResourceMetric", "; ".join(problems))
    wanted = max(answers)
    return (max(wanted, current) if problems else wanted), measured


_DEFAULT_METRIC: Final = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}


def _of_metric(metric: Object, pods: usage.Pods, values: dict[str, Object]) -> tuple[int, dict[str, Any]]:
    kind = metric.get("type")
    if kind != "Resource":
        raise _Unable(
            "ScalingActive", "InvalidMetricSourceType", f"metrics of type {kind} are not supported; use Resource"
        )
    resource: Object = metric["resource"]
    name, target = resource["name"], resource["target"]
    amounts = {
        pod: sum(quantities.milli((one.get("usage") or {}).get(name, "0")) for one in metrics.get("containers") or ())
        for pod, metrics in values.items()
    }
    if target.get("averageUtilization") is not None:
        found = usage.by_utilization(pods, amounts, int(target["averageUtilization"]), name)
        current: dict[str, Any] = {"averageUtilization": found.usage}
        if found.raw is not None:
            current["averageValue"] = str(quantities.from_milli(found.raw))
    elif target.get("averageValue") is not None:
        found = usage.by_average(pods, amounts, quantities.milli(target["averageValue"]), name)
        current = {"averageValue": str(quantities.from_milli(found.usage))}
    else:
        raise _Unable(
            "ScalingActive", "InvalidMetricSourceType", "a Resource metric needs averageUtilization or averageValue"
        )
    return found.replicas, {"type": "Resource", "resource": {"name": name, "current": current}}


def _conditions(autoscaler: Object, found: pace.Pace, now: str) -> list[dict[str, Any]]:
    wanted = (
        {"type": "AbleToScale", "status": "True", "reason": found.able, "message": "the target can be scaled"},
        {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "metrics could be read"},
        {
            "type": "ScalingLimited",
            "status": "True" if found.limited else "False",
            "reason": found.limit,
            "message": "the number is limited" if found.limited else "the number is within the acceptable range",
        },
    )
    conditions = meta.conditions(autoscaler)
    for one in wanted:
        conditions = meta.with_condition(conditions, one, now=now)
    return [dict(one) for one in conditions]
