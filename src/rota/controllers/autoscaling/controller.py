"""Sizes Deployments, ReplicaSets and StatefulSets by what their pods use, as HorizontalPodAutoscalers say.

Every fifteen seconds it reads the target's scale, its pods and what they use (`metrics.k8s.io`), has the number worked
out (`proposals`, `pace`) and writes it. Sizes are read from the server each time, so that nothing is decided from an
old one. Metrics of the types Resource and ContainerResource are known; others are reported as unknown. Behaves as
upstream's (`pkg/controller/podautoscaler`, 1.36).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, meta, quantities, times
from rota.client.informers.cache import Key
from rota.client.verbs import Client, Object, Selection
from rota.controllers.autoscaling import pace, proposals
from rota.controllers.autoscaling.pace import Memory
from rota.controllers.autoscaling.proposals import Measured, Proposal, Tolerances, Unknown
from rota.controllers.pod_control import PODS
from rota.controllers.reconciling import Reconciler
from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

AUTOSCALERS: Final = ("autoscaling", "v2", "horizontalpodautoscalers")
POD_METRICS: Final = ("metrics.k8s.io", "v1beta1", "pods")
PERIOD_S: Final = 15.0
_TARGETS: Final = {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}
_KNOWN: Final = frozenset({"Resource", "ContainerResource"})
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)


class AutoscalingController:
    """Sizes for every HorizontalPodAutoscaler."""

    def __init__(self, client: Client, *, clock: Clock, chance: Chance, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "autoscaling", self._process, clock=clock, chance=chance, metrics=metrics
        )
        self._recorder: Final = self._frame.report_as("horizontal-pod-autoscaler")
        self._autoscalers: Final = self._frame.follow(AUTOSCALERS, self._changed)
        self._memories: Final[dict[str, Memory]] = {}

    async def run(self) -> None:
        """Keep sizes until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._memories.pop(meta.uid(old), None)
        elif old is None or new is None or old["spec"] != new["spec"]:
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        found = self._autoscalers.cache.get(key.name, key.namespace)
        if found is None:
            return None
        autoscaler = {**found, "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
        said = await self._size(autoscaler)
        if said != autoscaler.get("status"):
            try:
                await self._client.update(AUTOSCALERS, {**autoscaler, "status": said}, subresource="status")
            except errors.NotFound:
                return None
            except errors.Conflict:
                pass  # somebody has changed it: the next look finds what
        return PERIOD_S

    async def _size(self, autoscaler: Object) -> dict[str, Any]:
        """Bring the target to its size; what to say of it."""
        spec, old = autoscaler["spec"], dict(autoscaler.get("status") or {})
        saying = _Saying(old, now=times.format_time(self._clock.now()))
        target = spec["scaleTargetRef"]
        kind = _TARGETS.get(target["kind"])
        try:
            if kind is None:
                raise errors.NotFound(f"no matches for kind {target['kind']}")
            where = ("apps", "v1", kind)
            scale = await self._client.get(
                where, target["name"], namespace=meta.namespace(autoscaler), subresource="scale"
            )
        except errors.ApiError as error:
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            saying.condition("AbleToScale", "False", "FailedGetScale", message)
            self._recorder.event(autoscaler, "Warning", "FailedGetScale", str(error))
            return saying.status
        message = "the HPA controller was able to get the target's current scale"
        saying.condition("AbleToScale", "True", "SucceededGetScale", message)
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        saying.status["currentReplicas"] = current
        desired, reason = await self._desired(autoscaler, scale, current, saying)
        if desired is None:
            return saying.status
        saying.status["desiredReplicas"] = desired
        if desired != current:
            try:
                await self._client.update(where, {**scale, "spec": {"replicas": desired}}, subresource="scale")
            except errors.ApiError as error:
                message = f"the HPA controller was unable to update the target scale: {error}"
                saying.condition("AbleToScale", "False", "FailedUpdateScale", message)
                text = f"New size: {desired}; reason: {reason}; error: {error}"
                self._recorder.event(autoscaler, "Warning", "FailedRescale", text)
                return saying.status
            message = f"the HPA controller was able to update the target scale to {desired}"
            saying.condition("AbleToScale", "True", "SucceededRescale", message)
            self._recorder.event(autoscaler, "Normal", "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
            self._memory(autoscaler).changes.append((self._clock.monotonic(), desired - current))
            saying.status["lastScaleTime"] = saying.now
        return saying.status

    async def _desired(
        self, autoscaler: Object, scale: Object, current: int, saying: "_Saying"
    ) -> tuple[int | None, str]:
        """How many pods there should be, and why; None if that cannot be told."""
        spec, memory = autoscaler["spec"], self._memory(autoscaler)
        lowest, highest = int(spec.get("minReplicas") or 1), int(spec["maxReplicas"])
        if current == 0:
            message = "scaling is disabled since the replica count of the target is zero"
            saying.condition("ScalingActive", "False", "ScalingDisabled", message)
            return 0, ""
        if current > highest:
            return highest, "Current number of replicas above Spec.MaxReplicas"
        if current < lowest:
            return lowest, "Current number of replicas below Spec.MinReplicas"
        found = await self._proposed(autoscaler, scale, current)
        proposed = [one for one in found if isinstance(one, Proposal)]
        problem = next((one for one in found if isinstance(one, Unknown)), None)
        best = max(proposed, key=lambda one: one.replicas, default=None)
        if best is None or (problem is not None and best.replicas < current):
            reason, message = ("InvalidMetrics", "no metrics") if problem is None else (problem.reason, problem.message)
            text = f"the HPA was unable to compute the replica count: {message}"
            saying.condition("ScalingActive", "False", reason, text)
            self._recorder.event(autoscaler, "Warning", reason, message)
            return None, ""
        saying.status["currentMetrics"] = [dict(one.status) for one in proposed]
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        saying.condition("ScalingActive", "True", "ValidMetricFound", text)
        now = self._clock.monotonic()
        memory.forget(now)
        if not memory.recommendations:
            memory.recommendations.append((now, current))
        decision = pace.decide(spec, memory, current=current, wanted=best.replicas, now=now)
        saying.condition("AbleToScale", *decision.able)
        saying.condition("ScalingLimited", *decision.limited)
        reason = f"{best.name} above target" if decision.replicas > current else "All metrics below target"
        return decision.replicas, reason

    async def _proposed(self, autoscaler: Object, scale: Object, current: int) -> list[Proposal | Unknown]:
        """What each metric asks for."""
        metrics = autoscaler["spec"].get("metrics") or ()
        namespace, labels = meta.namespace(autoscaler), str((scale.get("status") or {}).get("selector") or "")
        if not labels:
            return [Unknown("InvalidSelector", "selector is required")]
        selection = Selection(labels=labels)
        pods = (await self._client.list(PODS, namespace=namespace, selection=selection)).items
        try:
            used = (await self._client.list(POD_METRICS, namespace=namespace, selection=selection)).items
        except errors.ApiError as error:
            text = f"unable to get metrics from resource metrics API: {error}"
            return [Unknown("FailedGetResourceMetric", text)]
        found: list[Proposal | Unknown] = []
        for metric in metrics:
            if metric["type"] not in _KNOWN:
                text = f"metrics of the type {metric['type']} are not served here; use Resource or ContainerResource"
                found.append(Unknown("InvalidMetricSourceType", text))
                continue
            found.append(
                proposals.propose(
                    metric,
                    pods,
                    _measured(used, proposals.source(metric)),
                    current=current,
                    tolerances=_tolerances(autoscaler["spec"]),
                    now=self._clock.now(),
                )
            )
        return found

    def _memory(self, autoscaler: Object) -> Memory:
        return self._memories.setdefault(meta.uid(autoscaler), Memory())


class _Saying:
    """A status that is being put together."""

    def __init__(self, old: Mapping[str, Any], *, now: str) -> None:
        self.now: Final = now
        self.status: Final[dict[str, Any]] = {"desiredReplicas": 0, **old}

    def condition(self, name: str, status: str, reason: str, message: str) -> None:
        """Say how something is."""
        new = {"type": name, "status": status, "reason": reason, "message": message}
        self.status["conditions"] = meta.with_condition(self.status.get("conditions") or (), new, now=self.now)


def _measured(used: list[Object], described: Mapping[str, Any]) -> dict[str, Measured]:
    """What pods, or one container of each, use of a resource; pods of which it is not known of all are left out."""
    resource, container = str(described["name"]), described.get("container")
    found: dict[str, Measured] = {}
    for one in used:
        chosen = [part for part in one.get("containers") or () if container in {None, "", part["name"]}]
        amounts = [(part.get("usage") or {}).get(resource) for part in chosen]
        if chosen and all(amount is not None for amount in amounts):
            found[meta.name(one)] = Measured(
                amount=sum(map(quantities.milli, amounts)),
                at=times.parse(one["timestamp"]),
                window_s=_seconds(str(one.get("window", ""))),
            )
    return found


def _tolerances(spec: Mapping[str, Any]) -> Tolerances:
    behavior = spec.get("behavior") or {}
    given = [(behavior.get(name) or {}).get("tolerance") for name in ("scaleUp", "scaleDown")]
    up, down = (proposals.TOLERANCE if one is None else quantities.milli(one) / 1000 for one in given)
    return Tolerances(up=up, down=down)


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    hours, minutes, seconds = found.groups() if found else (None, None, None)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
