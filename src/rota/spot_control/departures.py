"""The machines with a notice: each is handled once, its node tainted, and the taint removed if the notice is withdrawn.

A departure is identified by the node's uid: a new machine with an old name is another one. The state is read back from
the node (`node_state`), so that a restarted controller continues.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import meta
from rota.client.verbs import Object
from rota.kit.clock import Clock
from rota.spot.node_readings import Notice
from rota.spot.node_signals import NodeSignals
from rota.spot_control import node_state
from rota.spot_control.api_writer import ApiWriter
from rota.spot_control.event_reporter import EventReporter
from rota.spot_control.spot_metrics import SpotMetrics

#: How long a notice must be absent before the node is used again.
CALM_S: Final = 60.0
#: Retry interval after temporary errors.
_AGAIN_S: Final = 1.0
#: After this time the watch has delivered a patch, or another client has reverted it.
_SHOWN_S: Final = 30.0


@dataclass(slots=True)
class Departure:
    """One machine with a notice."""

    notice: Notice
    #: Whether the node has the taint.
    marked: bool
    #: Whether pods were evicted.
    begun: bool
    emptied: bool = False
    marked_at: float = -math.inf


class Departures:
    """All machines with a notice, and those whose notice was withdrawn recently."""

    def __init__(
        self,
        api_writer: ApiWriter,
        event_reporter: EventReporter,
        metrics: SpotMetrics,
        *,
        clock: Clock,
        marks: NodeSignals,
        dry_run: bool,
        staying_on: Callable[[str], Sequence[Object]],
        stays: Callable[[Object], None],
    ) -> None:
        """`staying_on` returns a node's pods that must leave; `stays` is called when a notice is withdrawn."""
        self._api_writer: Final = api_writer
        self._event_reporter: Final = event_reporter
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._marks: Final = marks
        self._dry_run: Final = dry_run
        self._staying_on: Final = staying_on
        self._stays: Final = stays
        #: Nodes with a notice or with the controller's taint, by name.
        self.tainted_nodes: Final[set[str]] = set()
        self._by_uid: Final[dict[str, Departure]] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._by_uid

    def of(self, node: Object) -> Departure | None:
        """The departure of a node; None if it has no notice."""
        return self._by_uid.get(meta.uid(node))

    def gone(self, node: Object) -> bool:
        """A node is gone; whether it had a notice that was handled."""
        self.tainted_nodes.discard(meta.name(node))
        return self._by_uid.pop(meta.uid(node), None) is not None

    async def mark_all(self, nodes: Iterable[Object]) -> float:
        """Update the taints of nodes; when to check next."""
        return min(await asyncio.gather(*(self._mark(node) for node in nodes)), default=math.inf)

    async def _mark(self, node: Object) -> float:
        now, uid = self._clock.now(), meta.uid(node)
        notice = node_state.read(node, self._marks, now=now).notice
        known = self._by_uid.get(uid)
        if notice is None:
            return await self._withdraw(node, now)
        if known is None or known.notice.mark != notice.mark:
            marked = node_state.handled(node) == notice.mark
            known = self._by_uid[uid] = Departure(notice, marked=marked, begun=marked)
            # after a restart the end of the evacuation is not reported again
            known.emptied = marked and not self._staying_on(meta.name(node))
        else:
            # a deadline is only ever moved earlier
            known.notice = replace(
                notice,
                since=min(notice.since, known.notice.since),
                deadline=min(notice.deadline, known.notice.deadline),
            )
        if known.marked:
            return math.inf
        if not await self._api_writer.patch(node, lambda fresh: node_state.leaves(fresh, notice)):
            return now + _AGAIN_S
        done = self._clock.now()
        known.marked, known.marked_at = True, done
        self._metrics.notices.labels(notice.provider, notice.mark).inc()
        self._metrics.lead.observe(notice.left(now))
        self._metrics.marked.observe(max(0.0, done - notice.since))
        when = "when budgets let its pods go" if notice.waits else f"in {notice.left(now):.0f} s"
        told = f"goes {when} ({notice.mark}); its pods leave"
        self._event_reporter.node(node, "SpotNotice", told)
        return math.inf

    async def _withdraw(self, node: Object, now: float) -> float:
        known, since = self._by_uid.pop(meta.uid(node), None), node_state.since(node)
        if known is not None:
            self._stays(node)
        if since is None:
            if known is None or self._dry_run or now >= known.marked_at + _SHOWN_S:
                self.tainted_nodes.discard(meta.name(node))
                return math.inf
            self._by_uid[meta.uid(node)] = known  # the watch has not delivered the controller's own patch yet
            return now + _AGAIN_S
        if node_state.handled(node):
            if await self._api_writer.patch(node, self._calming):
                self._metrics.withdrawn.inc()
                self._event_reporter.node(
                    node, "SpotNoticeWithdrawn", f"stays after all, if no notice comes for {CALM_S:.0f} s"
                )
            return now + _AGAIN_S
        if now < since + CALM_S:
            return since + CALM_S
        if await self._api_writer.patch(node, node_state.stays):
            self._event_reporter.node(node, "SpotNodeStays", "takes pods and traffic again: its notice was withdrawn")
        return now + _AGAIN_S

    def _calming(self, node: Mapping[str, Any]) -> dict[str, Any] | None:
        now = self._clock.now()
        back = node_state.read(node, self._marks, now=now).notice is not None
        return None if back else node_state.calms(node, now=now)
