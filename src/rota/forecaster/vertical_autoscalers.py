"""Recommendations for VerticalPodAutoscalers: the requests of a workload's containers, from what its pods used. Pure.

The formulas are VPA's (`rota.forecast.recommendations`): a decaying histogram of cpu samples, each weighed by the
request of its container, and one of the daily peaks of memory. A histogram belongs to the workload, so a new replica
starts from the history of the others. Recommendations are kept within the bounds of the object's resource policy.

Modes other than `Off` need the webhook of `rota forecaster`; without it, an object gets its recommendation and a
condition that says that it is not applied.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from rota.api import meta, resources, times
from rota.api.resources import CPU, MEMORY
from rota.forecast.histograms import DAY_S, VPA_CPU, VPA_MEMORY, DecayingHistograms
from rota.forecast.recommendations import (
    VPA_HALF_LIFE_S,
    VPA_LEAST_WEIGHT,
    VPA_PERCENTILES,
    Range,
    vpa_after_oom,
    vpa_confidence,
    vpa_range,
)
from rota.forecaster import checkpoints, recommended_pods
from rota.forecaster.checkpoints import EXPIRED_S, HistoryState
from rota.forecaster.recommended_pods import OFF, capped

Object = Mapping[str, Any]

#: What VPA recommends for a whole pod at least: millicores and bytes.
LEAST: Final = {CPU: 25.0, MEMORY: 250.0 * 2**20}
#: Histories of one autoscaler; of more, those without a sample for longest are forgotten.
MOST_CONTAINERS: Final = 100
_FIELDS: Final = ("lowerBound", "target", "upperBound")
_NO_PODS: Final = "no pod of the target was found"
NO_WEBHOOK: Final = "start rota forecaster with --webhooks, or set updateMode to Off"


@dataclass(slots=True)
class _Peak:
    """The greatest memory of a container in the present day."""

    ends_s: float
    bytes: float


@dataclass(slots=True)
class _Container:
    """The history of one container of a workload, over all its pods."""

    first_s: float
    last_s: float
    samples: int = 0
    cpu: DecayingHistograms = field(default_factory=lambda: DecayingHistograms(1, VPA_CPU, half_life_s=VPA_HALF_LIFE_S))
    memory: DecayingHistograms = field(
        default_factory=lambda: DecayingHistograms(1, VPA_MEMORY, half_life_s=VPA_HALF_LIFE_S)
    )
    #: By pod.
    peaks: dict[str, _Peak] = field(default_factory=dict)
    #: Kills for memory that were counted, by pod.
    kills: dict[str, int] = field(default_factory=dict)

    def add_cpu(self, cores: float, request_cores: float, now_s: float) -> None:
        self.cpu.add(np.array([cores]), now_s, max(request_cores, VPA_LEAST_WEIGHT))
        self.samples += 1
        self.last_s = now_s

    def add_memory(self, pod: str, used: float, now_s: float) -> None:
        """Raise the peak of the day; the histogram has one sample for each pod and day."""
        peak = self.peaks.get(pod)
        if peak is None or now_s >= peak.ends_s:
            begin_s = now_s if peak is None else peak.ends_s + (now_s - peak.ends_s) // DAY_S * DAY_S
            peak = self.peaks[pod] = _Peak(begin_s + DAY_S, 0.0)
        elif used > peak.bytes > 0:
            self.memory.add(np.array([peak.bytes]), peak.ends_s, -1.0)
        if used > peak.bytes:
            self.memory.add(np.array([used]), peak.ends_s, 1.0)
            peak.bytes = used

    def state(self) -> HistoryState:
        """What a checkpoint keeps."""
        return HistoryState(self.first_s, self.last_s, self.samples, self.cpu.weights(0), self.memory.weights(0))

    @classmethod
    def restored(cls, state: HistoryState) -> "_Container":
        made = cls(state.first_s, state.last_s, state.samples)
        made.cpu.restore(0, *state.cpu)
        made.memory.restore(0, *state.memory)
        return made

    def ranges(self) -> dict[str, Range]:
        """In millicores and bytes."""
        days = vpa_confidence(np.array([self.last_s - self.first_s]), np.array([float(self.samples)]))
        found = {}
        for name, histogram, scale in ((CPU, self.cpu, 1000.0), (MEMORY, self.memory, 1.0)):
            p50, p90, p95 = (scale * histogram.percentile(share) for share in VPA_PERCENTILES)
            found[name] = vpa_range(p50, p90, p95, days)
        return found


class Recommender:
    """The histories of all workloads that an autoscaler names."""

    def __init__(self) -> None:
        #: By the uid of the autoscaler and the name of the container.
        self._histories: dict[str, dict[str, _Container]] = {}

    def checkpoints(self, autoscaler: Object, now_s: float) -> list[dict[str, Any]]:
        """VPA's objects that keep the histories of an autoscaler over restarts."""
        return [
            checkpoints.document(autoscaler, name, container.state(), now_s)
            for name, container in self._histories.get(meta.uid(autoscaler), {}).items()
            if container.samples
        ]

    def restore(self, autoscaler: Object, found: Iterable[Object]) -> None:
        """Take the histories of an autoscaler from its checkpoints; those that cannot be read are left out."""
        history = self._histories.setdefault(meta.uid(autoscaler), {})
        for each in found:
            state = checkpoints.state(each)
            if state is not None and checkpoints.is_of(autoscaler, each):
                history[checkpoints.container(each)] = _Container.restored(state)

    def add(
        self, autoscalers: Iterable[Object], pods: Iterable[Object], measured: Iterable[Object], now_s: float
    ) -> None:
        """Take the PodMetrics of the pods of each workload."""
        pods = list(pods)
        usage = {(meta.namespace(one), meta.name(one)): one for one in measured}
        kept = {}
        for autoscaler in autoscalers:
            history = kept[meta.uid(autoscaler)] = self._histories.get(meta.uid(autoscaler), {})
            matched = [pod for pod in pods if is_target(autoscaler, pod)]
            for pod in matched:
                metrics = usage.get((meta.namespace(pod), meta.name(pod)), {})
                self._add_pod(history, pod, metrics, now_s)
            newest_s = max((each.last_s for each in history.values()), default=0.0)
            for name in [name for name, each in history.items() if newest_s - each.last_s > EXPIRED_S]:
                del history[name]
            oldest = sorted(history, key=lambda name: history[name].last_s)
            for name in oldest[: max(len(history) - MOST_CONTAINERS, 0)]:
                del history[name]
            present = {meta.uid(pod) for pod in matched}
            for container in history.values():
                for states in (container.peaks, container.kills):
                    for gone in states.keys() - present:
                        del states[gone]
        self._histories = kept

    def status(self, autoscaler: Object, *, matched: bool, now_s: float, unapplied: str = NO_WEBHOOK) -> dict[str, Any]:
        """The status of an autoscaler; its recommendation is absent before the first sample.

        `unapplied` says why modes other than `Off` are not applied; empty if they are.
        """
        found = []
        history = self._histories.get(meta.uid(autoscaler), {})
        for name, container in sorted(history.items()):
            policy = recommended_pods.policy_of(autoscaler, name)
            if container.samples and policy.get("mode") != OFF:
                found.append(_recommendation(name, container.ranges(), policy, len(history)))
        mode = recommended_pods.mode(autoscaler)
        problem = f"updateMode {mode} is not applied: {unapplied}" if mode != OFF and unapplied else ""
        conditions: list[Mapping[str, Any]] = list(meta.conditions(autoscaler))
        now = times.format_time(now_s)
        for kind, holds, reason, message in (
            ("RecommendationProvided", bool(found), "" if found else "NoSamples", ""),
            ("NoPodsMatched", not matched, "" if matched else "NoPodsMatched", "" if matched else _NO_PODS),
            ("ConfigUnsupported", bool(problem), "UpdateMode" if problem else "", problem),
        ):
            condition = {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
            conditions = list(meta.with_condition(conditions, condition, now=now))
        status: dict[str, Any] = {"conditions": conditions}
        if found:
            status["recommendation"] = {"containerRecommendations": found}
        return status

    def _add_pod(self, history: dict[str, _Container], pod: Object, metrics: Object, now_s: float) -> None:
        uid = meta.uid(pod)
        requests = {
            each["name"]: resources.amount(CPU, ((each.get("resources") or {}).get("requests") or {}).get(CPU))
            for each in (pod.get("spec") or {}).get("containers") or ()
        }
        for each in metrics.get("containers") or ():
            name, used = each["name"], each.get("usage") or {}
            if name not in requests:
                continue
            container = history.setdefault(name, _Container(now_s, now_s))
            if CPU in used:
                container.add_cpu(resources.amount(CPU, used[CPU]) / 1000, requests[name] / 1000, now_s)
            if MEMORY in used:
                container.add_memory(uid, float(resources.amount(MEMORY, used[MEMORY])), now_s)
        for state in (pod.get("status") or {}).get("containerStatuses") or ():
            last = (state.get("lastState") or {}).get("terminated") or {}
            container_or_none = history.get(state.get("name", ""))
            count = int(state.get("restartCount") or 0)
            if container_or_none is None or last.get("reason") != "OOMKilled":
                continue
            if container_or_none.kills.get(uid) != count:
                container_or_none.kills[uid] = count
                peak = container_or_none.peaks.get(uid)
                if peak is not None:
                    grown = float(vpa_after_oom(np.array([peak.bytes]))[0])
                    container_or_none.add_memory(uid, grown, min(now_s, peak.ends_s - 1))


def is_target(autoscaler: Object, pod: Object) -> bool:
    """Whether a running pod belongs to the workload that the autoscaler names."""
    if meta.namespace(pod) != meta.namespace(autoscaler) or (pod.get("status") or {}).get("phase") != "Running":
        return False
    return recommended_pods.names(autoscaler, pod)


def _recommendation(name: str, ranges: Mapping[str, Range], policy: Object, containers: int) -> dict[str, Any]:
    controlled = policy.get("controlledResources") or (CPU, MEMORY)
    found: dict[str, Any] = {"containerName": name}
    for field_name, attribute in zip(_FIELDS, ("lower", "target", "upper"), strict=True):
        amounts = {
            resource: max(float(getattr(each, attribute)[0]), LEAST[resource] / containers)
            for resource, each in ranges.items()
            if resource in controlled and not np.isnan(each.target[0])
        }
        found[field_name] = {resource: _shown(resource, capped(resource, n, policy)) for resource, n in amounts.items()}
        if field_name == "target":
            found["uncappedTarget"] = {resource: _shown(resource, n) for resource, n in amounts.items()}
    return found


def _shown(resource: str, amount: float) -> str:
    """Whole millicores and bytes, rounded up; a young upper bound has no limit and is shown as the largest amount."""
    whole = int(np.ceil(min(amount, _MOST[resource]) - 1e-6))
    return f"{whole}m" if resource == CPU else str(whole)


_MOST: Final = {CPU: 1e8, MEMORY: 1e15}
