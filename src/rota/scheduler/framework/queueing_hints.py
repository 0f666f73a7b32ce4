"""What plugins say about waiting pods: who may wait, who comes next, and what is worth another attempt.

The queue itself, its clocks and its pauses are elsewhere; here are only the rules for asking plugins.
"""

from collections.abc import Collection, Sequence
from typing import Any

from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import EVERYTHING, ClusterEvent, Hint, Subscription
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.runtime import Framework, guarded
from rota.scheduler.framework.status import SUCCESS, Status

#: Plugins at these points can turn a pod away, so what wakes it matters.
REJECTING = (
    ExtensionPoint.PRE_ENQUEUE,
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.RESERVE,
    ExtensionPoint.PERMIT,
)


def admit(framework: Framework, pod: PodInfo, *, first: str = "") -> Status:
    """Ask PreEnqueue whether a pod may wait for an attempt; the plugin that last held it back is asked first."""
    gates = framework.at(ExtensionPoint.PRE_ENQUEUE)
    with framework.guard:
        for plugin in sorted(gates, key=lambda plugin: plugin.name != first) if first else gates:
            answer = guarded(plugin.name, plugin.pre_enqueue, pod)
            if not answer.ok:
                return answer
    return SUCCESS


def sort_key(framework: Framework, pod: PodInfo, queued_at: float) -> Any:
    """Give the value that orders waiting pods, by the profile's one QueueSort plugin."""
    (plugin,) = framework.at(ExtensionPoint.QUEUE_SORT)
    with framework.guard:
        return plugin.sort_key(pod, queued_at)


class QueueingHintMap:
    """Which events may help pods that a plugin turned away."""

    def __init__(self, framework: Framework) -> None:
        plugins = dict.fromkeys(plugin for point in REJECTING for plugin in framework.at(point))
        self._subscriptions: dict[str, Sequence[Subscription]] = {
            plugin.name: plugin.events_to_register() if hasattr(plugin, "events_to_register") else EVERYTHING
            for plugin in plugins
        }
        self._guard = framework.guard
        #: What each plugin says to an event, worked out when the event first happens.
        self._heard: dict[ClusterEvent, dict[str, tuple[Subscription, ...]]] = {}

    def interested(self, event: ClusterEvent) -> bool:
        """Whether any plugin wants to hear of an event."""
        return any(self._hearing(event).values())

    def listening(self, plugin: str, event: ClusterEvent) -> Sequence[Subscription]:
        """Give the subscriptions of a plugin that an event falls under; an unknown plugin hears everything."""
        return self._hearing(event).get(plugin, EVERYTHING)

    def _hearing(self, event: ClusterEvent) -> dict[str, tuple[Subscription, ...]]:
        heard = self._heard.get(event)
        if heard is None:
            heard = self._heard[event] = {
                name: tuple(each for each in listed if each.event.covers(event))
                for name, listed in self._subscriptions.items()
            }
        return heard

    def worth_trying(
        self, pod: PodInfo, unschedulable_plugins: Collection[str], event: ClusterEvent, old: Any, new: Any
    ) -> list[str]:
        """Give those of the plugins that turned a pod away which think that an event may help it.

        A plugin that is not known any more, and a hint that raises, count as hope: better one attempt too many.
        """
        with self._guard:
            return [
                name
                for name in unschedulable_plugins
                if any(_helps(each, pod, old, new) for each in self.listening(name, event))
            ]


def _helps(subscription: Subscription, pod: PodInfo, old: Any, new: Any) -> bool:
    if subscription.hint is None:
        return True
    try:
        return subscription.hint(pod, old, new) is Hint.QUEUE
    except Exception:  # noqa: BLE001 - plugins are other people's code, and their doubts are the pod's benefit
        return True
