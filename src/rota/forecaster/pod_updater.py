"""Updates running pods of autoscaled workloads, as `pod_updates` decides.

Pods are resized in place where the API server and the node can do that, and otherwise evicted within their disruption
budgets. Their replacements get new resources by the webhook. Evictions are written to the status of the autoscaler
before they are made, so that a process that starts anew waits for their replacements, too.
"""

from collections.abc import Iterable
from typing import Final

from rota.api import errors, meta, times
from rota.client import pods as pod_actions
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, PatchType
from rota.forecaster import pod_updates, recommended_pods
from rota.forecaster.kinds import AUTOSCALERS
from rota.forecaster.pod_updates import Evictions, Update
from rota.kit import logs
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

PODS: Final = ("", "v1", "pods")
UNREACHED: Final = "the API server does not ask the webhook about new pods; see its MutatingWebhookConfiguration"


class PodUpdater:
    """Updates pods, one turn at a time."""

    def __init__(self, client: Client, *, clock: Clock, metrics: Metrics) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._updates: Final = metrics.counter(
            "pod_updates_total", "Updates of running pods, by outcome.", ("outcome",)
        )
        #: The last evictions of a workload, by the uid and the generation of its autoscaler.
        self._evicted: dict[tuple[str, int], Evictions] = {}

    async def turn(self, autoscalers: Iterable[Object], pods: Iterable[Object], ranges: Iterable[Object]) -> set[str]:
        """Update what is due; returns the uids of the autoscalers whose new pods the webhook does not see."""
        autoscalers, pods, ranges, unreached = list(autoscalers), list(pods), list(ranges), set()
        present = set(map(_key, autoscalers))
        self._evicted = {key: last for key, last in self._evicted.items() if key in present}
        for each in autoscalers:
            key, place, began_s = _key(each), meta.namespace(each), self._clock.now()
            here = [pod for pod in pods if meta.namespace(pod) == place]
            decision = pod_updates.decide(
                each,
                here,
                [one for one in ranges if meta.namespace(one) == place],
                now_s=began_s,
                evictions=self._evicted.get(key) or pod_updates.remembered(each, here, now_s=began_s),
            )
            if decision.unreached:
                unreached.add(meta.uid(each))
            count = said = 0
            for update in decision.updates:
                if await self._resized(update):
                    continue
                if count == said:
                    said = count + 1 if await self._remember(each, count + 1, began_s) else said
                if said > count and await self._evicted_now(update):
                    count += 1
                    known = frozenset(meta.uid(pod) for pod in here if recommended_pods.names(each, pod))
                    self._evicted[key] = Evictions(self._clock.now(), count, known)
            if said > count:
                await self._remember(each, count, began_s)
        return unreached

    async def _remember(self, autoscaler: Object, count: int, began_s: float) -> bool:
        """Write evictions to the status of the autoscaler; whether that is done. Without it, no pod is evicted.

        The condition has the time of the first eviction: a pod that is created after it is a replacement.
        """
        condition = pod_updates.evicted_condition(autoscaler, count, began_s)
        now = times.format_time(self._clock.now())
        others = [each for each in meta.conditions(autoscaler) if each.get("type") != pod_updates.EVICTED]
        conditions = meta.with_condition(others, condition, now=now) if count else others
        try:
            await self._client.patch(
                AUTOSCALERS,
                meta.name(autoscaler),
                {"status": {"conditions": conditions}},
                namespace=meta.namespace(autoscaler),
                subresource="status",
            )
        except (errors.ApiError, TransportError) as error:
            log.warning("evictions cannot be recorded", autoscaler=meta.qualified_name(autoscaler), error=error)
            return False
        return True

    async def _resized(self, update: Update) -> bool:
        """Resize a pod in place if that is wanted; whether nothing is left to do in this turn."""
        outcome = await self._resize(update) if update.in_place else ""
        if outcome:
            self._count(update, outcome)
        return bool(outcome)

    async def _evicted_now(self, update: Update) -> bool:
        """Evict one pod; whether it was."""
        name, namespace = meta.name(update.pod), meta.namespace(update.pod)
        try:
            await pod_actions.evict(self._client, name, namespace=namespace, uid=meta.uid(update.pod))
            outcome = "evicted"
        except errors.TooManyRequests:
            outcome = "budget"
        except (errors.NotFound, errors.Conflict):
            outcome = "gone"
        except (errors.ApiError, TransportError) as error:
            outcome = "failed"
            log.warning("pod cannot be updated", pod=f"{namespace}/{name}", error=error)
        self._count(update, outcome)
        return outcome == "evicted"

    def _count(self, update: Update, outcome: str) -> None:
        self._updates.labels(outcome).inc()
        log.info("pod with other than recommended resources", pod=meta.qualified_name(update.pod), outcome=outcome)

    async def _resize(self, update: Update) -> str:
        """Resize a pod in place; returns the outcome, which is empty if only a new pod can have other resources."""
        containers = (update.pod.get("spec") or {}).get("containers") or ()
        changed = [
            {"name": containers[position]["name"], "resources": resources}
            for position, resources in recommended_pods.changed_containers(update.pod, update.changes)
        ]
        try:
            await self._client.patch(
                PODS,
                meta.name(update.pod),
                {"spec": {"containers": changed}},
                type=PatchType.STRATEGIC,
                namespace=meta.namespace(update.pod),
                subresource="resize",
            )
        except (errors.NotFound, errors.MethodNotAllowed, errors.Invalid, errors.Forbidden) as error:
            # The server has no such subresource, or refuses this resize: a new pod it is.
            log.info("pod cannot be resized in place", pod=meta.qualified_name(update.pod), error=error)
            return ""
        except (errors.ApiError, TransportError) as error:
            # A busy server says nothing about the pod: it keeps running until the next turn.
            log.warning("pod cannot be updated", pod=meta.qualified_name(update.pod), error=error)
            return "failed"
        return "resized"


def _key(autoscaler: Object) -> tuple[str, int]:
    return meta.uid(autoscaler), pod_updates.generation(autoscaler)
