"""Scales targets of HorizontalPodAutoscalers through their scale subresource.

Every fifteen seconds the controller reads the target's scale, its pods and its metrics (`metrics_client`), calculates
the number of pods (`replica_calculator`, `behavior`) and writes it. The scale is read from the server each time, never
from a cache. Behaves as upstream's (`pkg/controller/podautoscaler`, 1.36).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api import errors, meta, quantities, selectors, times
from rota.api.selectors import Selector
from rota.client.informers.cache import Key
from rota.client.paths import Target as Resource
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object, Selection
from rota.controllers.autoscaling import behavior as autoscaling_behavior
from rota.controllers.autoscaling import metrics_client, replica_calculator
from rota.controllers.autoscaling.behavior import Memory
from rota.controllers.autoscaling.metrics_client import Meters
from rota.controllers.autoscaling.replica_calculator import Proposal, Target, Tolerances, Unknown
from rota.controllers.pod_control import PODS
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

AUTOSCALERS: Final = ("autoscaling", "v2", "horizontalpodautoscalers")
PERIOD_S: Final = 15.0
#: Attempts to write a scale when writes conflict.
_TRIES: Final = 5
#: Kinds whose plural needs no discovery request.
_KNOWN: Final = {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}


@dataclass(slots=True)
class _Known:
    """The state that is kept for an autoscaler between rounds."""

    memory: Memory = field(default_factory=Memory)
    #: The selector of the pods that it scales.
    selector: Selector | None = None


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a target is not scaled: an event, and a condition with the same or another message."""

    event: str
    reason: str
    message: str
    said: str = ""


class AutoscalingController:
    """Scales the targets of all HorizontalPodAutoscalers."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._meters: Final = Meters(client)
        self._frame: Final = Reconciler[Key](
            client, "autoscaling", self._process, clock=clock, rng=rng, metrics=metrics
        )
        self._recorder: Final = self._frame.report_as("horizontal-pod-autoscaler")
        self._autoscalers: Final = self._frame.follow(AUTOSCALERS, self._changed)
        self._known: Final[dict[Key, _Known]] = {}

    async def run(self) -> None:
        """Scale until cancelled."""
        await self._frame.run()

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None or (old is not None and meta.uid(old) != meta.uid(new)):
            self._known.pop(key, None)
        if new is not None and (old is None or old["spec"] != new["spec"]):
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        found = self._autoscalers.cache.get(key.name, key.namespace)
        if found is None:
            return None
        autoscaler = {**found, "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
        saying = _Saying(autoscaler.get("status") or {}, now=times.format_time(self._clock.now()))
        await self._size(key, autoscaler, saying)
        if saying.status != autoscaler.get("status"):
            try:
                await self._client.update(AUTOSCALERS, {**autoscaler, "status": saying.status}, subresource="status")
            except errors.NotFound:
                return None
            except errors.Conflict:
                pass  # a conflicting write: the next round reads the new state
        return PERIOD_S

    async def _size(self, key: Key, autoscaler: Object, saying: "_Saying") -> None:
        """Scale the target, and update the autoscaler's status."""
        name = autoscaler["spec"]["scaleTargetRef"]["name"]
        try:
            where = await self._where(autoscaler["spec"]["scaleTargetRef"])
            scale = await self._client.get(where, name, namespace=key.namespace, subresource="scale")
        except errors.ApiError as error:
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            saying.condition("AbleToScale", "False", "FailedGetScale", message)
            self._recorder.event(autoscaler, "Warning", "FailedGetScale", str(error))
            return
        message = "the HPA controller was able to get the target's current scale"
        saying.condition("AbleToScale", "True", "SucceededGetScale", message)
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        known = self._known.setdefault(key, _Known())
        if not known.memory.recommendations:
            known.memory.recommendations.append((self._clock.monotonic(), current))
        desired, reason = await self._desired(key, autoscaler, scale, saying)
        if desired is None:
            saying.sizes(current, int(saying.status.get("desiredReplicas") or 0))
            return
        if desired != current:
            try:
                await self._write(where, scale, desired, namespace=key.namespace)
            except errors.ApiError as error:
                message = f"the HPA controller was unable to update the target scale: {error}"
                saying.condition("AbleToScale", "False", "FailedUpdateScale", message)
                text = f"New size: {desired}; reason: {reason}; error: {error}"
                self._recorder.event(autoscaler, "Warning", "FailedRescale", text)
                saying.sizes(current, int(saying.status.get("desiredReplicas") or 0))
                return
            message = f"the HPA controller was able to update the target scale to {desired}"
            saying.condition("AbleToScale", "True", "SucceededRescale", message)
            self._recorder.event(autoscaler, "Normal", "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
            known.memory.changes.append((self._clock.monotonic(), desired - current))
            saying.status["lastScaleTime"] = saying.now
        saying.sizes(current, desired)

    async def _where(self, target: Mapping[str, Any]) -> Resource:
        """The resource that a reference names; the plural of a custom kind comes from discovery."""
        kind, (group, _, version) = target["kind"], str(target.get("apiVersion") or "v1").rpartition("/")
        plural = (
            _KNOWN.get(kind)
            if group == "apps"
            else await metrics_client.resource_of(self._client, group, version, kind)
        )
        if plural is None:
            raise errors.NotFound(f'no matches for kind "{kind}" in group "{group}"')
        return (group, version, plural)

    async def _write(self, where: Resource, scale: Object, replicas: int, *, namespace: str) -> None:
        """Write a scale, and retry on conflicts."""
        for attempt in range(_TRIES):
            try:
                await self._client.update(where, {**scale, "spec": {"replicas": replicas}}, subresource="scale")
            except errors.Conflict:
                if attempt == _TRIES - 1:
                    raise
                scale = await self._client.get(where, meta.name(scale), namespace=namespace, subresource="scale")
            else:
                return

    async def _desired(self, key: Key, autoscaler: Object, scale: Object, saying: "_Saying") -> tuple[int | None, str]:
        """The desired number of pods and the reason; None if it cannot be calculated."""
        spec, current = autoscaler["spec"], int((scale.get("spec") or {}).get("replicas") or 0)
        lowest, highest = int(spec.get("minReplicas") or 1), int(spec["maxReplicas"])
        if current == 0:
            message = "scaling is disabled since the replica count of the target is zero"
            saying.condition("ScalingActive", "False", "ScalingDisabled", message)
            return 0, ""
        if current > highest:
            return highest, "Current number of replicas above Spec.MaxReplicas"
        if current < lowest:
            return lowest, "Current number of replicas below Spec.MinReplicas"
        pods = await self._pods(key, scale)
        if isinstance(pods, _Refusal):
            self._recorder.event(autoscaler, "Warning", pods.event, pods.message)
            saying.condition("ScalingActive", "False", pods.reason, pods.said or pods.message)
            self._recorder.event(autoscaler, "Warning", "FailedComputeMetricsReplicas", pods.message)
            return None, ""
        best = await self._best(autoscaler, scale, pods, saying)
        if best is None:
            return None, ""
        now, memory = self._clock.monotonic(), self._known[key].memory
        memory.forget(now)
        decision = autoscaling_behavior.decide(spec, memory, current=current, wanted=best.replicas, now=now)
        saying.condition("AbleToScale", *decision.able)
        saying.condition("ScalingLimited", *decision.limited)
        if best.replicas == current:
            return decision.replicas, ""
        reason = f"{best.name} above target" if best.replicas > current else "All metrics below target"
        return decision.replicas, reason

    async def _pods(self, key: Key, scale: Object) -> "Sequence[Object] | _Refusal":
        """The target's pods; refused if its selector is unusable or another autoscaler selects the same pods."""
        text = str((scale.get("status") or {}).get("selector") or "")
        if not text:
            said = "the HPA target's scale is missing a selector"
            return _Refusal("SelectorRequired", "InvalidSelector", "selector is required", said)
        try:
            self._known[key].selector = selectors.parse(text)
        except selectors.SelectorError as problem:
            message = f"couldn't convert selector into a corresponding internal selector object: {problem}"
            return _Refusal("InvalidSelector", "InvalidSelector", message)
        pods = (await self._client.list(PODS, namespace=key.namespace, selection=Selection(labels=text))).items
        sizing = self._sizing(key.namespace, pods)
        if len(sizing) > 1:
            others = " ".join(f"{{{one.namespace} {one.name}}}" for one in sizing)
            message = f"pods by selector {text} are controlled by multiple HPAs: [{others}]"
            return _Refusal("AmbiguousSelector", "AmbiguousSelector", message)
        return pods

    def _sizing(self, namespace: str, pods: Sequence[Object]) -> list[Key]:
        """All autoscalers whose targets include one of these pods."""
        there = [(key, one.selector) for key, one in self._known.items() if key.namespace == namespace]
        labels = [meta.labels(pod) for pod in pods]
        return sorted(
            key for key, selector in there if selector is not None and any(selector.matches(one) for one in labels)
        )

    async def _best(
        self, autoscaler: Object, scale: Object, pods: Sequence[Object], saying: "_Saying"
    ) -> Proposal | None:
        """The metric with the largest proposal; None if an unreadable metric might propose more. Sets the condition."""
        namespace, current = meta.namespace(autoscaler), int(scale["spec"]["replicas"])
        status = scale.get("status") or {}
        target = Target(namespace=namespace, pods=pods, wanted=current, present=int(status.get("replicas") or 0))
        found: list[Proposal | Unknown] = []
        for metric in autoscaler["spec"].get("metrics") or ():
            read = await self._meters.read(metric, namespace, str(status["selector"]))
            tolerances = _tolerances(autoscaler["spec"])
            found.append(replica_calculator.propose(metric, read, target, tolerances=tolerances, now=self._clock.now()))
        saying.metrics = [dict(one.status) if isinstance(one, Proposal) else {"type": ""} for one in found]
        unknown = [one for one in found if isinstance(one, Unknown)]
        for one in unknown:
            self._recorder.event(autoscaler, "Warning", one.reason, one.message)
        best = max((one for one in found if isinstance(one, Proposal)), key=lambda one: one.replicas, default=None)
        if best is None or (unknown and best.replicas < current):
            first = unknown[0] if unknown else Unknown("InvalidMetrics", "no metrics", "no metrics")
            text = f"the HPA was unable to compute the replica count: {first.message}"
            saying.condition("ScalingActive", "False", first.reason, text)
            text = f"invalid metrics ({len(unknown)} invalid out of {len(found)}), first error is: {first.among_others}"
            self._recorder.event(autoscaler, "Warning", "FailedComputeMetricsReplicas", text)
            return None
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        saying.condition("ScalingActive", "True", "ValidMetricFound", text)
        return best


class _Saying:
    """A status under construction."""

    def __init__(self, old: Mapping[str, Any], *, now: str) -> None:
        self.now: Final = now
        self.status: Final[dict[str, Any]] = {"desiredReplicas": 0, **old}
        #: The current metric values, if they were read.
        self.metrics: list[dict[str, Any]] | None = None

    def condition(self, name: str, status: str, reason: str, message: str) -> None:
        """Set a condition."""
        new = {"type": name, "status": status, "reason": reason, "message": message}
        self.status["conditions"] = meta.with_condition(self.status.get("conditions") or (), new, now=self.now)

    def sizes(self, current: int, desired: int) -> None:
        """Set the current and desired sizes; the previous metric values are dropped."""
        self.status["desiredReplicas"] = desired
        for name, value in (("currentReplicas", current), ("currentMetrics", self.metrics)):
            self.status.pop(name, None)
            if value:
                self.status[name] = value


def _tolerances(spec: Mapping[str, Any]) -> Tolerances:
    behavior = spec.get("behavior") or {}
    given = [(behavior.get(name) or {}).get("tolerance") for name in ("scaleUp", "scaleDown")]
    up, down = (replica_calculator.TOLERANCE if one is None else quantities.milli(one) / 1000 for one in given)
    return Tolerances(up=up, down=down)
