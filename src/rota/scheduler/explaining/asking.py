"""Asking for an explanation from outside of the scheduler: the server's own if it has one, else worked out here.

A server whose scheduler explains (`pods/explain`) knows its profiles and extenders best. A stock cluster does not have
that; there, and where another configuration is asked about, the whole cluster is read once and the decision is made
here, with the same plugins.
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
from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.scheduler import configuration_source, scenarios
from rota.scheduler.explaining import analysis, pictures, report
from rota.scheduler.explaining.analysis import NO_OPINIONS, Opinions
from rota.scheduler.explaining.pictures import Picture
from rota.scheduler.explaining.report import Explanation
from rota.scheduler.extenders import building
from rota.scheduler.extenders.panel import Panel
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.loading import Loaded

SUBRESOURCE: Final = "explain"


class NotExplained(UserError):
    """A pod cannot be explained, and why not."""


async def of_server(client: Client, name: str, *, namespace: str, node: str = "", most: int) -> Explanation | None:
    """Ask the server; None if it has nobody who explains."""
    query = [("limit", str(most)), *([("node", node)] if node else [])]
    path = paths.item(PODS, name, namespace=namespace, subresource=SUBRESOURCE)
    once = client.with_settings(retry=False)  # "not here" is an answer, and there is another way
    try:
        answer = wire.decode_object(await once.request("GET", path, query=query))
        return report.from_wire(answer)
    except (errors.NotFound, errors.MethodNotAllowed, errors.ServiceUnavailable, errors.Forbidden):
        return None
    except msgspec.ValidationError:
        return None  # a server of another version


class Asker:
    """Works explanations out by one configuration, on pictures of clusters."""

    def __init__(self, loaded: Loaded, *, clock: Clock, chance: Chance, any_name: bool = False) -> None:
        """With `any_name`, the only profile of a configuration decides for pods of any schedulerName."""
        self._loaded: Final = loaded
        self._any_name: Final = any_name
        self._clock: Final = clock
        self._chance: Final = chance

    async def pod(self, client: Client, name: str, *, namespace: str, node: str = "", most: int) -> Explanation:
        """Explain a pod of the cluster."""
        document = await client.get(PODS, name, namespace=namespace)
        picture = await pictures.take(client, configuration_source.frameworks(self._loaded).values())
        try:
            pod = picture.vocabulary.pod(document)
        except MalformedObjectError as error:
            raise NotExplained(f"pod {namespace}/{name} cannot be understood: {error}") from error
        return await self._explained(picture, pod, document, node=node, most=most)

    async def manifest(
        self, client: Client, document: Mapping[str, Any], *, path: str, node: str = "", most: int
    ) -> Explanation:
        """Explain a pod that was not submitted; its priority comes from its class."""
        picture = await pictures.take(client, configuration_source.frameworks(self._loaded).values())
        try:
            pod = scenarios.read_incoming(document, picture.cluster, picture.vocabulary, path=path)
        except MalformedObjectError as error:
            raise NotExplained(str(error)) from error
        return await self._explained(picture, pod, document, node=node, most=most)

    async def _explained(
        self, picture: Picture, pod: PodInfo, document: Mapping[str, Any], *, node: str, most: int
    ) -> Explanation:
        if node and node not in picture.cluster.by_name:
            raise NotExplained(f"the cluster has no node {node}", "see kubectl get nodes")
        profiles = self._loaded.configuration.profiles
        profile = profiles.get(pod.shape.scheduler_name)
        if profile is None and self._any_name and len(profiles) == 1:
            profile = self._loaded.configuration.first
        if profile is None:
            return analysis.unserved(pod, tuple(profiles))
        framework = Framework(profile, self._loaded.registry)
        opinions = await self._opinions(framework, picture, pod, document)
        return analysis.explain(
            framework,
            picture.cluster,
            pod,
            node_name=node,
            most=most,
            nominations=picture.nominated(),
            opinions=opinions,
        )

    async def _opinions(
        self, framework: Framework, picture: Picture, pod: PodInfo, document: Mapping[str, Any]
    ) -> Opinions:
        extenders = self._loaded.configuration.extenders
        if not extenders:
            return NO_OPINIONS
        panel = building.panel(extenders, surroundings=picture, clock=self._clock, chance=self._chance)
        try:
            with analysis.without(picture.cluster, pod):
                decision = analysis.evaluate(framework, picture.cluster, pod, nominations=picture.nominated())
                feasible = [
                    node.name
                    for node in picture.cluster.node_infos()
                    if decision.evaluation.failure is None and decision.evaluation.feasible[node.row]
                ]
            return await opinions(panel, document, feasible)
        finally:
            await panel.close()


async def opinions(panel: Panel, document: Mapping[str, Any], feasible: list[str]) -> Opinions:
    """Ask extenders what they think of the nodes that plugins would take."""
    if not feasible:
        return NO_OPINIONS
    narrowed = await panel.filter(document, feasible)
    if narrowed.failure is not None:
        return Opinions(refusals=dict.fromkeys(feasible, narrowed.failure))
    ratings = await panel.prioritize(document, narrowed.feasible)
    return Opinions(refusals=narrowed.refusals, ratings=ratings)
