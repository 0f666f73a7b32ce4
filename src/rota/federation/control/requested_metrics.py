"""The use of pods in pull members, which the control plane does not reach: agents are asked for it by MemberReports."""

import contextlib
from collections.abc import Collection
from typing import Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds, member_reports, object_names
from rota.federation.member_reports import PodUse, Unusable
from rota.kit.clock import Clock

#: After how long an answer is too old.
STALE_S: Final = 60.0


class RequestedMetrics:
    """The reports about pods that FederatedHPAs need."""

    def __init__(self, client: Client, frame: Reconciler[Key], *, clock: Clock, stale_s: float = STALE_S) -> None:
        """`stale_s`: an answer counts for so long after the control plane has seen it, by its own clock."""
        self._client: Final = client
        self._frame: Final = frame
        self._clock: Final = clock
        self._stale_s: Final = stale_s
        self._reports: Final = frame.follow(kinds.MEMBER_REPORTS, self._changed).cache
        self._seen: Final[dict[Key, float]] = {}

    async def use(self, cluster: Object, autoscaler: Key, selector: str) -> PodUse:
        """What the pods of an autoscaler's target use in a cluster, by the last answer of its agent."""
        wanted = member_reports.about_pods(
            meta.name(cluster), f"{autoscaler.namespace}/{autoscaler.name}", autoscaler.namespace, selector
        )
        key = Key(meta.namespace(wanted), meta.name(wanted))
        report = self._reports.get(key.name, key.namespace)
        if report is None:
            with contextlib.suppress(errors.AlreadyExists):
                await self._client.create(kinds.MEMBER_REPORTS, wanted)
            raise Unusable("the agent has not answered yet")
        if report.get("spec") != wanted["spec"]:
            patch = {"spec": wanted["spec"]}
            await self._client.patch(kinds.MEMBER_REPORTS, key.name, patch, namespace=key.namespace)
            raise Unusable("the agent has not answered yet")
        if not meta.is_condition_true(cluster, "Ready"):
            raise Unusable("the cluster is not ready")
        if self._clock.monotonic() - self._seen.get(key, 0.0) > self._stale_s:
            raise Unusable(f"the agent has not answered for {self._stale_s:g} seconds")
        return member_reports.pods(report)

    async def keep(self, autoscaler: Key, clusters: Collection[str]) -> None:
        """Delete the reports of an autoscaler that are about other clusters."""
        owner = f"{autoscaler.namespace}/{autoscaler.name}"
        left = [
            key
            for key, report in self._reports.items()
            if meta.annotations(report).get(member_reports.AUTOSCALER) == owner
            and object_names.cluster_of(key.namespace) not in clusters
        ]
        for key in left:
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(kinds.MEMBER_REPORTS, key.name, namespace=key.namespace)

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._seen.pop(key, None)
            return
        if old is None or old.get("status") != new.get("status"):
            self._seen[key] = self._clock.monotonic()
        owner = meta.annotations(new).get(member_reports.AUTOSCALER) or ""
        if old is None and owner:
            # its autoscaler may have been deleted while this loop did not run
            namespace, _, name = owner.partition("/")
            self._frame.queue.add(Key(namespace, name))
