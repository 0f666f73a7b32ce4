"""Rules for calling the plugins of the queue: PreEnqueue, QueueSort and queueing hints.

The queue itself, with its times and backoff, is in `rota.scheduler.queue`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any
from weakref import WeakSet

from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.scheduler.framework.events import EVERYTHING, ClusterEvent, Hint, Subscription
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.runtime import Framework, guarded
from rota.scheduler.framework.status import SUCCESS, Status

log = logs.get(__name__)

#: Hints that raised once: they are asked for every waiting pod at every event, and told of once.
_failed_hints: WeakSet[Callable[..., Hint]] = WeakSet()

#: Plugins at these points can refuse a pod, so their subscriptions matter.
REJECTING = (
    ExtensionPoint.PRE_ENQUEUE,
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.RESERVE,
    ExtensionPoint.PERMIT,
)


def admit(framework: Framework, pod: PodInfo, *, first: str = "") -> Status:
    """Run PreEnqueue for a pod; the plugin that last held it back runs first."""
    gates = framework.at(ExtensionPoint.PRE_ENQUEUE)
    with framework.guard:
        for plugin in sorted(gates, key=lambda plugin: plugin.name != first) if first else gates:
            answer = guarded(plugin.name, plugin.pre_enqueue, pod)
            if not answer.ok:
                return answer
    return SUCCESS


def sort_key(framework: Framework, pod: PodInfo, queued_at: float) -> Any:
    """The sort key of a pod, by the profile's only QueueSort plugin."""
    (plugin,) = framework.at(ExtensionPoint.QUEUE_SORT)
    with framework.guard:
        return plugin.sort_key(pod, queued_at)


class QueueingHintMap:
    """The events that may help pods that a plugin refused."""

    def __init__(self, framework: Framework) -> None:
        plugins = dict.fromkeys(plugin for point in REJECTING for plugin in framework.at(point))
        self._subscriptions: dict[str, Sequence[Subscription]] = {
            plugin.name: plugin.events_to_register() if hasattr(plugin, "events_to_register") else EVERYTHING
            for plugin in plugins
        }
        self._guard = framework.guard
        #: The subscriptions of each plugin for an event, computed at the event's first occurrence.
        self._heard: dict[ClusterEvent, dict[str, tuple[Subscription, ...]]] = {}

    def interested(self, event: ClusterEvent) -> bool:
        """Whether any plugin subscribes to an event."""
        return any(self._hearing(event).values())

    def listening(self, plugin: str, event: ClusterEvent) -> Sequence[Subscription]:
        """The subscriptions of a plugin that include an event; an unknown plugin subscribes to everything."""
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
        """The plugins, of those that refused a pod, whose hints say that an event may help it.

        A plugin that is no longer known, and a hint that raises, count as QUEUE: an extra attempt is harmless.
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
    except Exception as error:  # plugins are other people's code, and their doubts are the pod's benefit
        if subscription.hint not in _failed_hints:
            _failed_hints.add(subscription.hint)
            log.exception("queueing hint failed", error=error, pod=pod.key, hint=repr(subscription.hint))
        return True
