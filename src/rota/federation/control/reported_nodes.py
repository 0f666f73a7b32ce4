"""The nodes of pull members, as their agents report them, for the accurate estimator."""

import contextlib
from typing import Any, Final

from rota.api import errors, meta
from rota.client.informers.cache import Cache, Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds, member_reports, object_names
from rota.federation.estimation.member_nodes import MemberNodes
from rota.kit import logs

log = logs.get(__name__)


class ReportedNodes:
    """Asks agents for nodes, and hands their answers to `MemberNodes`."""

    def __init__(self, client: Client, frame: Reconciler[str], nodes: MemberNodes | None) -> None:
        """Without `nodes`, agents are not asked."""
        self._client: Final = client
        self._frame: Final = frame
        self._nodes: Final = nodes
        self._reports: Final[Cache[Object] | None] = (
            None if nodes is None else frame.follow(kinds.MEMBER_REPORTS, self._changed).cache
        )
        #: By cluster, the version of the report that was handed over.
        self._taken: Final[dict[str, Any]] = {}

    async def request(self, cluster: str) -> None:
        """Ask an agent for its nodes, or not any more."""
        wanted = member_reports.about_nodes(cluster)
        if self._nodes is None:
            with contextlib.suppress(errors.NotFound):
                await self._client.delete(kinds.MEMBER_REPORTS, meta.name(wanted), namespace=meta.namespace(wanted))
            return
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(kinds.MEMBER_REPORTS, wanted)

    def take(self, cluster: Object) -> None:
        """Hand over what an agent reported; nothing is known of a cluster that is not ready."""
        if self._nodes is None or self._reports is None:
            return
        name = meta.name(cluster)
        report = self._reports.get(member_reports.NODES, object_names.execution_space(name))
        if report is None or not meta.is_condition_true(cluster, "Ready"):
            self.drop(name)
            return
        version = meta.uid(report), meta.metadata(report).get("resourceVersion")
        if self._taken.get(name) == version:
            return
        try:
            self._nodes.put(name, member_reports.nodes(report))
            self._taken[name] = version
        except member_reports.Unusable as error:
            log.info("the nodes of a member are not known", cluster=name, error=str(error))
            self.drop(name)

    def drop(self, cluster: str) -> None:
        """Forget the nodes of a cluster."""
        self._taken.pop(cluster, None)
        if self._nodes is not None:
            self._nodes.drop(cluster)

    def _changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        cluster = object_names.cluster_of(key.namespace)
        if key.name == member_reports.NODES and cluster is not None:
            self._frame.queue.add(cluster)
