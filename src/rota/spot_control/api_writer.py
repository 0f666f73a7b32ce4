"""The writes of the spot controller: node patches, evictions, deletions. Results are returned or counted.

A dry run sends the same requests with the API's `dryRun`, so that it reports the server's real answers.
"""

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import errors, meta
from rota.api.errors import ApiError
from rota.client import pods
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.clock import Clock
from rota.spot.evacuation import Act, Step
from rota.spot_control.event_reporter import EventReporter
from rota.spot_control.eviction_state import EvictionStates
from rota.spot_control.reservations import owner_of
from rota.spot_control.spot_metrics import SpotMetrics

log = logs.get(__name__)

NODES: Final = ("", "v1", "nodes")
#: Concurrent requests, independent of the number of nodes.
_AT_ONCE: Final = 32
#: Concurrent evictions of the pods of one owner.
_ABREAST: Final = 4
_TIMEOUT_S: Final = 10.0
#: Attempts to patch a node when writes conflict.
_ATTEMPTS: Final = 4
_TWO_BUDGETS: Final = "more than one PodDisruptionBudget"
#: Retry interval for a pod with two budgets: one of them may be deleted.
_TWO_BUDGETS_S: Final = 60.0
#: The conflict if another pod has the name now; any other is about a budget that several evictions change.
_ANOTHER_POD: Final = re.compile(r"UID in (the )?precondition")

Document = Mapping[str, Any]


class ApiWriter:
    """Executes decisions."""

    def __init__(
        self,
        client: Client,
        guests: EvictionStates,
        event_reporter: EventReporter,
        metrics: SpotMetrics,
        *,
        clock: Clock,
        dry_run: bool,
    ) -> None:
        # the controller handles refusals by budgets itself, and a missing answer must not delay other requests
        self._client: Final = client.with_settings(timeout_s=_TIMEOUT_S, retry=False)
        self._guests: Final = guests
        self._event_reporter: Final = event_reporter
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._dry_run: Final = dry_run
        self._places: Final = asyncio.Semaphore(_AT_ONCE)

    async def patch(self, node: Document, patch: Callable[[Document], dict[str, Any] | None]) -> bool:
        """Patch a node; False if that failed and should be retried. No request without a patch."""
        async with self._places:
            for attempt in range(_ATTEMPTS):
                try:
                    wanted = patch(node)
                    if wanted is not None:
                        await self._client.patch(NODES, meta.name(node), wanted, dry_run=self._dry_run)
                except errors.NotFound:
                    return True
                except errors.Conflict:
                    if attempt == _ATTEMPTS - 1:
                        return False
                    again = await self._again(node)
                    if again is None:
                        return False
                    if meta.uid(again) != meta.uid(node):
                        return True  # the name belongs to another machine now
                    node = again
                except (ApiError, TransportError) as problem:
                    log.warning("node not patched", node=meta.name(node), error=problem)
                    return False
                else:
                    return True
        return False

    async def _again(self, node: Document) -> Document | None:
        try:
            return await self._client.get(NODES, meta.name(node))
        except (ApiError, TransportError):
            return None

    async def do(self, steps: Sequence[tuple[Step, Document, str]], *, still: Callable[[Document], bool]) -> None:
        """Evict or delete pods, highest priority first: each step with its pod and the successor's node.

        `still` checks right before each request whether it is still needed: thousands of them take a while.
        """
        ordered = sorted(steps, key=lambda one: (-one[0].guest.priority, -one[0].guest.grace_s, one[0].guest.key))
        # budgets are consumed in the order of requests
        for _, equals in itertools.groupby(ordered, key=lambda one: one[0].guest.priority):
            await asyncio.gather(*(self._row(row, still) for row in _rows(equals)))

    async def _row(self, steps: Sequence[tuple[Step, Document, str]], still: Callable[[Document], bool]) -> None:
        for step, pod, place in steps:
            async with self._places:
                if not still(pod):
                    continue
                if step.act is Act.DELETE:
                    await self._delete(pod)
                elif not await self._evict(pod, place):
                    return  # the others are requested again in the next round

    async def _evict(self, pod: Document, place: str) -> bool:
        """Request an eviction; False if no answer came."""
        memory, now = self._guests.of(meta.uid(pod)), self._clock.now()
        code = 201
        try:
            await pods.evict(
                self._client, meta.name(pod), namespace=meta.namespace(pod), uid=meta.uid(pod), dry_run=self._dry_run
            )
        except ApiError as refusal:
            code = refusal.code
            if isinstance(refusal, errors.NotFound) or _ANOTHER_POD.search(refusal.message):
                memory.told_at = now  # it is gone
            elif _TWO_BUDGETS in refusal.message:
                if memory.hopeless_until < 0:
                    said = "its machine goes, and it cannot be evicted: more than one PodDisruptionBudget is about it"
                    self._event_reporter.pod(pod, "SpotTwoBudgets", said, warning=True)
                memory.hopeless_until = now + _TWO_BUDGETS_S
            else:
                self._refused(pod, refusal.message)
        except TransportError as problem:
            code = 0
            self._refused(pod, str(problem))
        else:
            memory.told_at = now
            self._metrics.evicted.inc()
            where = f"there is a place for another on {place}" if place else "it is its last moment"
            self._event_reporter.pod(pod, "SpotEvicted", f"its machine goes, and {where}")
        self._metrics.requests.labels(str(code)).inc()
        return code > 0

    async def send_back(self, pod: Document, *, place: str, why: str) -> bool:
        """Evict a pod that the scheduler would place on a spot machine; a budget's refusal is not retried."""
        code, name = 201, meta.name(pod)
        async with self._places:
            try:
                await pods.evict(
                    self._client, name, namespace=meta.namespace(pod), uid=meta.uid(pod), dry_run=self._dry_run
                )
            except ApiError as refusal:
                code = refusal.code
                log.info("stays for now", pod=f"{meta.namespace(pod)}/{name}", error=refusal)
            except TransportError as problem:
                code = 0
                log.warning("API server does not respond", pod=f"{meta.namespace(pod)}/{name}", error=problem)
        self._metrics.requests.labels(str(code)).inc()
        if code != 201:
            return False
        self._guests.of(meta.uid(pod)).told_at = self._clock.now()
        self._metrics.evicted.inc()
        self._event_reporter.pod(pod, "SpotReturns", f"goes back to a spot machine, {place} as things are: {why}")
        return True

    def _refused(self, pod: Document, why: str) -> None:
        memory = self._guests.of(meta.uid(pod))
        if not memory.refusals:
            self._event_reporter.pod(pod, "SpotEvictionRefused", f"its machine goes, but: {why}", warning=True)
        memory.refusals += 1
        memory.refused_at = self._clock.now()

    async def _delete(self, pod: Document) -> None:
        memory, name, namespace = self._guests.of(meta.uid(pod)), meta.name(pod), meta.namespace(pod)
        try:
            await self._client.delete(PODS, name, namespace=namespace, uid=meta.uid(pod), dry_run=self._dry_run)
        except (errors.NotFound, errors.Conflict):
            memory.told_at = self._clock.now()
        except (ApiError, TransportError) as problem:
            log.warning("pod not deleted at its deadline", pod=f"{namespace}/{name}", error=problem)
            memory.failed_at = self._clock.now()
        else:
            memory.told_at = self._clock.now()
            self._metrics.deleted.inc()
            said = "its machine goes, and no time is left to wait for its budget"
            self._event_reporter.pod(pod, "SpotDeletedAtDeadline", said, warning=True)


def _rows(steps: Iterable[tuple[Step, Document, str]]) -> list[list[tuple[Step, Document, str]]]:
    """Group evictions that run one after the other: pods with the same owner probably share a budget.

    Concurrent evictions under one budget conflict in a stock API server: all but one wait half a second and retry. Many
    at once take longer than a few.
    """
    rows: dict[str, list[list[tuple[Step, Document, str]]]] = {}
    for one in steps:
        step, pod, _ = one
        owner = "" if step.act is Act.DELETE else owner_of(pod)
        lanes = rows.setdefault(owner or meta.uid(pod), [])
        if len(lanes) < _ABREAST:
            lanes.append([one])
        else:
            lanes.append(lanes.pop(0))
            lanes[-1].append(one)
    return [lane for lanes in rows.values() for lane in lanes]
