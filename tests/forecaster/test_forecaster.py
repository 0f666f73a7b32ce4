"""The forecaster on an API server: it publishes, and the scheduler decides by what it published."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from rota import component_process
from rota.api import errors
from rota.client import status_writes
from rota.client.verbs import Client
from rota.forecast.fleet import FleetSettings
from rota.forecast.node_series import WORKER, NodeSeries
from rota.forecaster import autoscaler_webhook, kinds, rights
from rota.forecaster.forecaster import Forecaster, Settings, WebhookSettings
from rota.forecaster.vertical_autoscalers import Recommender
from rota.testing.clusters import make_pod
from rota.testing.schedulers import SchedulingCluster, cluster

CONFIG = """
profiles:
- plugins:
    multiPoint:
      enabled: [{name: LoadAware, weight: 100}]
"""
SETTINGS = Settings(fleet=FleetSettings(interval_s=60.0, history_s=1200.0, warm_up_s=120.0))


class Measuring:
    """A client of the server, with metrics of nodes that a test gives."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.usage: dict[str, str] = {}
        #: Of pods, by name: cpu.
        self.pods: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, target: tuple[str, str, str], **more: Any) -> Any:
        found = await self._client.list(kinds.NODES if target[0] == "metrics.k8s.io" else target, **more)
        if target == kinds.POD_METRICS:
            found.items[:] = [
                {
                    "metadata": {"name": pod, "namespace": "default"},
                    "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "1Gi"}}],
                }
                for pod, cpu in self.pods.items()
            ]
        if target == kinds.NODE_METRICS:
            found.items[:] = [
                {"metadata": {"name": node}, "usage": {"cpu": cpu, "memory": "1Gi"}} for node, cpu in self.usage.items()
            ]
        return found


def forecaster(running: SchedulingCluster, client: Any) -> Forecaster:
    return Forecaster(client, SETTINGS, clock=running.clock, rng=running.rng, identity="one")


async def test_forecasts_are_published_and_removed_with_their_nodes() -> None:
    async with cluster() as running:
        await running.add_node("n1")
        await running.add_node("n2")
        client = Measuring(running.client)
        one, series = forecaster(running, client), NodeSeries(SETTINGS.fleet)
        await one.install()
        client.usage = {"n1": "1", "n2": "2"}
        assert await one.step(series) == 2
        assert await one.step(series) == 0
        found = await running.client.get(kinds.FORECASTS, "n2")
        assert found["status"]["resources"][0]["used"] == "2000m"
        assert found["status"]["resources"][0]["basis"] == "Cold"
        await running.client.delete(kinds.NODES, "n2")
        await one.step(series)
        assert [each["metadata"]["name"] for each in (await running.client.list(kinds.FORECASTS)).items] == ["n1"]


async def test_nodes_whose_workers_publish_are_left_to_them() -> None:
    async with cluster() as running:
        await running.add_node("n1")
        client = Measuring(running.client)
        one, series = forecaster(running, client), NodeSeries(SETTINGS.fleet)
        await one.install()
        client.usage = {"n1": "1"}
        own = NodeSeries(SETTINGS.fleet, source=WORKER, rows=1)
        nodes = (await running.client.list(kinds.NODES)).items
        own.add(nodes, [], [{"metadata": {"name": "n1"}, "usage": {"cpu": "3", "memory": "1Gi"}}], running.clock.now())
        await status_writes.put_status(running.client, kinds.FORECASTS, own.due(running.clock.now())[0])
        assert await one.step(series) == 0
        await running.clock.advance(600.0)
        assert await one.step(series) == 1, "its worker has stopped"
        found = await running.client.get(kinds.FORECASTS, "n1")
        assert found["status"]["source"] == "Metrics"
        assert found["status"]["resources"][0]["used"] == "1000m"


async def test_the_scheduler_decides_by_published_forecasts() -> None:
    async with cluster() as running:
        await running.add_node("busy")
        await running.add_node("quiet")
        client = Measuring(running.client)
        one, series = forecaster(running, client), NodeSeries(SETTINGS.fleet)
        await one.install()
        client.usage = {"busy": "3500m", "quiet": "100m"}
        for _ in range(5):
            await one.step(series)
            await running.clock.advance(60.0)
        async with running.scheduling(CONFIG):
            await running.add_pod("web")
            assert await running.bound("web") == "quiet"


async def test_the_forecaster_works_while_it_leads() -> None:
    async with cluster() as running:
        await running.add_node("n1")
        client = Measuring(running.client)
        client.usage = {"n1": "1"}
        one = forecaster(running, client)
        await one.install()

        async def published() -> bool:
            return await running.exists(kinds.FORECASTS, "n1")

        async with running.running(one.run):
            await running.until(published)


async def test_a_vertical_pod_autoscaler_gets_a_recommendation() -> None:
    async with cluster() as running:
        client = Measuring(running.client)
        one, recommender = forecaster(running, client), Recommender()
        await one.install()
        assert await one.recommend(recommender) == 0
        spec = {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}}
        for name, mode in (("watched", "Off"), ("eager", "Recreate")):
            made = {
                "apiVersion": "autoscaling.k8s.io/v1",
                "kind": "VerticalPodAutoscaler",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {**spec, "updatePolicy": {"updateMode": mode}},
            }
            await running.client.create(kinds.AUTOSCALERS, made)
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
        pod = make_pod("db-0")
        pod["metadata"]["ownerReferences"] = [owner]
        await running.client.create(kinds.PODS, pod)
        running_now = {"status": {"phase": "Running"}}
        await running.client.patch(kinds.PODS, "db-0", running_now, namespace="default", subresource="status")
        client.pods = {"db-0": "100m"}
        assert await one.recommend(recommender) == 2
        assert await one.recommend(recommender) == 0, "nothing has changed"
        found = await running.client.get(kinds.AUTOSCALERS, "watched", namespace="default")
        (recommended,) = found["status"]["recommendation"]["containerRecommendations"]
        assert recommended["target"]["cpu"] == "127m"
        held = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert held == {"RecommendationProvided": "True", "NoPodsMatched": "False", "ConfigUnsupported": "False"}
        eager = await running.client.get(kinds.AUTOSCALERS, "eager", namespace="default")
        (unsupported,) = [each for each in eager["status"]["conditions"] if each["type"] == "ConfigUnsupported"]
        assert unsupported["message"].startswith("updateMode Recreate is not applied")


async def test_an_autoscaler_with_bounds_that_are_no_amounts_harms_no_other() -> None:
    async with cluster() as running:
        client = Measuring(running.client)
        one, recommender = forecaster(running, client), Recommender()
        await one.install()
        for name, policy in (("broken", {"containerName": "*", "minAllowed": {"cpu": "a lot"}}), ("sound", {})):
            spec = {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}}
            made = {
                "apiVersion": "autoscaling.k8s.io/v1",
                "kind": "VerticalPodAutoscaler",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {**spec, "resourcePolicy": {"containerPolicies": [policy] if policy else []}},
            }
            await running.client.create(kinds.AUTOSCALERS, made)
        pod = make_pod("db-0")
        pod["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
        ]
        await running.client.create(kinds.PODS, pod)
        running_now = {"status": {"phase": "Running"}}
        await running.client.patch(kinds.PODS, "db-0", running_now, namespace="default", subresource="status")
        client.pods = {"db-0": "100m"}
        assert await one.recommend(recommender) == 1
        found = await running.client.get(kinds.AUTOSCALERS, "sound", namespace="default")
        assert found["status"]["recommendation"]["containerRecommendations"]


def test_the_roles_that_the_command_names_have_every_permission() -> None:
    path = Path(__file__).parents[2] / component_process.ROLES["forecaster"]
    granted = {
        (group, resource, verb)
        for document in yaml.safe_load_all(path.read_text())
        for rule in document.get("rules") or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    everything = replace(SETTINGS, webhook=WebhookSettings(address=("", 0), tls=None))
    assert {(right.group, right.resource, right.verb) for right in rights.needed(everything)} == granted
    assert not any(right.resource == "pods/eviction" for right in rights.needed(SETTINGS))
    own = {right.name for right in rights.needed(everything) if right.verb == "patch" and "webhook" in right.resource}
    assert own == {autoscaler_webhook.NAME}, "it must not change the webhooks of others"


async def test_without_the_rights_to_the_newer_kinds_forecasts_are_published() -> None:
    async with cluster() as running:
        await running.add_node("n1")

        class Narrow(Measuring):
            async def list(self, target: tuple[str, str, str], **more: Any) -> Any:
                if target in (kinds.CHECKPOINTS, kinds.CLUSTER_STATES):
                    raise errors.Forbidden("no")
                return await super().list(target, **more)

        client = Narrow(running.client)
        client.usage = {"n1": "1"}
        one = forecaster(running, client)
        await one.install()
        await one.restore(Recommender())
        assert await one.step(NodeSeries(SETTINGS.fleet)) == 1
