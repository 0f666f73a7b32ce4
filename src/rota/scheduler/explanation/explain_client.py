"""Explanations requested from outside of the scheduler: by the server if it can explain, else computed here.

A server whose scheduler explains (`pods/explain`) uses its own profiles and extenders. A stock cluster has no such
subresource. There, and for another configuration, the whole cluster is listed once and the decision is made here with
the same plugins.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client import paths, wire
from rota.client.pods import PODS
from rota.client.verbs import Client
from rota.columns.objects import MalformedObjectError
from rota.columns.pods import PodInfo
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.scheduler.explanation import analysis
from rota.scheduler.explanation.analysis import NO_OPINIONS, Opinions
from rota.scheduler.extenders import factory
from rota.scheduler.extenders.chain import ExtenderChain
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.hints import explanation_report
from rota.scheduler.hints.explanation_report import Explanation
from rota.scheduler.plugin_registry import configuration_source
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.snapshot import cluster_snapshot, scenarios
from rota.scheduler.snapshot.cluster_snapshot import ClusterSnapshot

SUBRESOURCE: Final = "explain"


class NotExplained(UserError):
    """A pod cannot be explained; the message says why."""


async def of_server(client: Client, name: str, *, namespace: str, node: str = "", most: int) -> Explanation | None:
    """Ask the server; None if it cannot explain."""
    query = [("limit", str(most)), *([("node", node)] if node else [])]
    path = paths.item(PODS, name, namespace=namespace, subresource=SUBRESOURCE)
    once = client.with_settings(retry=False)  # "not found" is an answer here, and there is a fallback
    try:
        answer = wire.decode_object(await once.request("GET", path, query=query))
        return explanation_report.from_wire(answer)
    except (errors.NotFound, errors.MethodNotAllowed, errors.ServiceUnavailable, errors.Forbidden):
        return None
    except msgspec.ValidationError:
        return None  # a server of another version


class ExplainClient:
    """Computes explanations by one configuration, on snapshots of clusters."""

    def __init__(self, loaded: Loaded, *, clock: Clock, rng: Rng, any_name: bool = False) -> None:
        """With `any_name`, the only profile of a configuration decides for pods of any schedulerName."""
        self._loaded: Final = loaded
        self._any_name: Final = any_name
        self._clock: Final = clock
        self._rng: Final = rng

    async def pod(self, client: Client, name: str, *, namespace: str, node: str = "", most: int) -> Explanation:
        """Explain a pod of the cluster."""
        document = await client.get(PODS, name, namespace=namespace)
        snapshot = await cluster_snapshot.take(client, configuration_source.frameworks(self._loaded).values())
        try:
            pod = snapshot.interner.pod(document)
        except MalformedObjectError as error:
            raise NotExplained(f"pod {namespace}/{name} cannot be understood: {error}") from error
        return await self._explained(snapshot, pod, document, node=node, most=most)

    async def manifest(
        self, client: Client, document: Mapping[str, Any], *, path: str, node: str = "", most: int
    ) -> Explanation:
        """Explain a pod that was not submitted; its priority comes from its class."""
        snapshot = await cluster_snapshot.take(client, configuration_source.frameworks(self._loaded).values())
        try:
            pod = scenarios.read_incoming(document, snapshot.cluster, snapshot.interner, path=path)
        except MalformedObjectError as error:
            raise NotExplained(str(error)) from error
        return await self._explained(snapshot, pod, document, node=node, most=most)

    async def _explained(
        self, snapshot: ClusterSnapshot, pod: PodInfo, document: Mapping[str, Any], *, node: str, most: int
    ) -> Explanation:
        if node and node not in snapshot.cluster.by_name:
            raise NotExplained(f"the cluster has no node {node}", "see kubectl get nodes")
        profiles = self._loaded.configuration.profiles
        profile = profiles.get(pod.shape.scheduler_name)
        if profile is None and self._any_name and len(profiles) == 1:
            profile = self._loaded.configuration.first
        if profile is None:
            return analysis.unserved(pod, tuple(profiles))
        framework = Framework(profile, self._loaded.registry)
        opinions = await self._opinions(framework, snapshot, pod, document)
        return analysis.explain(
            framework,
            snapshot.cluster,
            pod,
            node_name=node,
            most=most,
            nominations=snapshot.nominated(),
            opinions=opinions,
        )

    async def _opinions(
        self, framework: Framework, snapshot: ClusterSnapshot, pod: PodInfo, document: Mapping[str, Any]
    ) -> Opinions:
        extenders = self._loaded.configuration.extenders
        if not extenders:
            return NO_OPINIONS
        extender_chain = factory.extender_chain(extenders, cluster_reader=snapshot, clock=self._clock, rng=self._rng)
        try:
            with analysis.without(snapshot.cluster, pod):
                decision = analysis.evaluate(framework, snapshot.cluster, pod, nominations=snapshot.nominated())
                feasible = [
                    node.name
                    for node in snapshot.cluster.node_infos()
                    if decision.evaluation.failure is None and decision.evaluation.feasible[node.row]
                ]
            return await opinions(extender_chain, document, feasible)
        finally:
            await extender_chain.close()


async def opinions(extender_chain: ExtenderChain, document: Mapping[str, Any], feasible: list[str]) -> Opinions:
    """Call the extenders for the feasible nodes."""
    if not feasible:
        return NO_OPINIONS
    narrowed = await extender_chain.filter(document, feasible)
    if narrowed.failure is not None:
        return Opinions(refusals=dict.fromkeys(feasible, narrowed.failure))
    ratings = await extender_chain.prioritize(document, narrowed.feasible)
    return Opinions(refusals=narrowed.refusals, ratings=ratings)
