"""Recommendations that are applied, on an API server that asks the webhook over HTTPS: new pods, and running ones."""

import contextlib
import random
import ssl
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from tests.forecaster.test_forecaster import Measuring

from rota.api import meta
from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client
from rota.forecast.histograms import VPA_CPU, VPA_MEMORY
from rota.forecaster import autoscaler_webhook, checkpoints, kinds
from rota.forecaster.checkpoints import EXPIRED_S, HistoryState
from rota.forecaster.forecaster import Forecaster, Settings, WebhookSettings
from rota.forecaster.pod_updater import UNREACHED, PodUpdater
from rota.forecaster.pod_updates import EVICTED, MARK
from rota.forecaster.vertical_autoscalers import Recommender
from rota.kit import tasks
from rota.kit.metrics import Metrics
from rota.kit.system import SystemClock
from rota.pki.authorities import Authority, Purpose
from rota.pki.certificates import Names, Subject
from rota.pki.contexts import use
from rota.testing.api import ApiServer
from rota.testing.clusters import Document, make_pod

OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
BUDGETS = ("policy", "v1", "poddisruptionbudgets")
RNG = random.Random(0)


@contextlib.asynccontextmanager
async def applying() -> AsyncIterator[tuple[Forecaster, Measuring]]:
    """A forecaster whose webhook an API server asks."""
    clock = SystemClock()
    authority = Authority.create(now=clock.now(), name="webhooks")
    identity = authority.issue(
        Subject(common_name="webhook"),
        now=clock.now(),
        lifetime_s=3600.0,
        purpose=Purpose.SERVER,
        names=Names.of(["127.0.0.1"]),
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    use(tls, identity)
    settings = Settings(webhook=WebhookSettings(address=("127.0.0.1", 0), tls=tls))
    async with ApiServer() as server:
        transport = InProcessTransport(server.app, clock=clock, user=None)
        client = Measuring(Client(transport))
        made = Forecaster(client, settings, clock=clock, rng=RNG, identity="one")  # type: ignore[arg-type]
        await made.install()
        async with tasks.Supervisor("test", clock=clock, rng=RNG) as running:
            running.start("autoscalers", made._autoscalers.run)
            running.start("ranges", made._ranges.run)
            async with made.serving() as url:
                # The port is free only now, so the test registers what the forecaster would.
                registration = autoscaler_webhook.configuration(url, authority.certificate_pem)
                await client.create(autoscaler_webhook.MUTATING, registration)
                yield made, client
        await transport.close()


def autoscaler(mode: str) -> Document:
    spec = {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {**spec, "updatePolicy": {"updateMode": mode}},
    }


async def add(client: Any, name: str) -> Document:
    pod = make_pod(name, cpu="10m", labels={"app": "db"})
    pod["metadata"]["ownerReferences"] = [OWNER]
    await client.create(kinds.PODS, pod)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    found = await client.patch(kinds.PODS, name, {"status": ready}, namespace="default", subresource="status")
    client.pods[name] = "100m"
    return dict(found)


async def pods(client: Any) -> dict[str, Document]:
    """The pods that are not about to end."""
    return {meta.name(each): each for each in (await client.list(kinds.PODS)).items if not meta.is_deleting(each)}


def request_of(pod: Document) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


async def known(made: Forecaster, *, recommended: bool = True) -> None:
    """Wait until the webhook has the present autoscaler."""
    for _ in range(6000):
        found = list(made._autoscalers.cache.values())
        if found and (not recommended or (found[0].get("status") or {}).get("recommendation")):
            return
        await SystemClock().sleep(0.01)
    raise AssertionError("the webhook does not get to know the autoscaler")


async def test_initial_sets_the_requests_of_new_pods_only() -> None:
    async with applying() as (made, client):
        recommender = Recommender()
        await client.create(kinds.AUTOSCALERS, autoscaler("Initial"))
        await known(made, recommended=False)
        before = await add(client, "db-0")
        assert request_of(before) == "10m"
        assert before["metadata"]["annotations"][MARK] == "c"
        await add(client, "db-1")
        await made.recommend(recommender)
        await known(made)
        after = await add(client, "db-2")
        assert request_of(after) == "127m"
        assert "container c: cpu, memory" in after["metadata"]["annotations"][autoscaler_webhook.CHANGES]
        await made.recommend(recommender)
        assert request_of((await pods(client))["db-0"]) == "10m"
        bare = await client.create(kinds.PODS, make_pod("bare", cpu="10m"))
        assert request_of(bare) == "10m"
        found = await client.get(kinds.AUTOSCALERS, "db", namespace="default")
        assert not meta.is_condition_true(found, "ConfigUnsupported")


async def test_recreate_evicts_within_budgets_until_the_webhook_is_not_asked() -> None:
    async with applying() as (made, client):
        recommender = Recommender()
        await client.create(kinds.AUTOSCALERS, autoscaler("InPlaceOrRecreate"))
        for number in range(2):
            await add(client, f"db-{number}")
        budget = {"selector": {"matchLabels": {"app": "db"}}, "minAvailable": 2}
        document = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "db", "namespace": "default"},
        }
        await client.create(BUDGETS, {**document, "spec": budget})
        counts = {"currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0, "expectedPods": 2}
        status = {"status": {**counts, "observedGeneration": 1}}
        await client.patch(BUDGETS, "db", status, namespace="default", subresource="status")
        await made.recommend(recommender)
        assert set(await pods(client)) == {"db-0", "db-1"}, "the budget forbids it"
        assert made.metrics.value("pod_updates_total", outcome="budget") == 1
        await client.delete(BUDGETS, "db", namespace="default")
        # This server has no pods/resize, so the pod is evicted.
        await made.recommend(recommender)
        assert made.metrics.value("pod_updates_total", outcome="evicted") == 1
        left = await pods(client)
        assert len(left) == 1
        gone = ({"db-0", "db-1"} - left.keys()).pop()
        # Another process waits for the replacement, too.
        found = await client.get(kinds.AUTOSCALERS, "db", namespace="default")
        assert (meta.condition(found, EVICTED) or {})["message"].startswith("1 pods at ")
        (pod,) = left.values()
        created = {"creationTimestamp": "2020-01-01T00:00:00Z"}
        older = {**pod, "metadata": {**pod["metadata"], **created}}
        successor = PodUpdater(client, clock=SystemClock(), metrics=Metrics("successor"))  # type: ignore[arg-type]
        assert (
            await successor.turn([found], [older, {**older, "metadata": {**older["metadata"], "uid": "x"}}], ())
            == set()
        )
        assert (await pods(client)).keys() == left.keys()
        await known(made)
        assert request_of(await add(client, gone)) == "127m"
        # Without the webhook, the next replacement would come back as it was, again and again.
        await client.delete(autoscaler_webhook.MUTATING, autoscaler_webhook.NAME)
        await made.recommend(recommender)
        (other,) = left
        assert other not in await pods(client), "the second pod had its turn"
        assert request_of(await add(client, other)) == "10m"
        await made.recommend(recommender)
        await made.recommend(recommender)
        assert set(await pods(client)) == {"db-0", "db-1"}
        found = await client.get(kinds.AUTOSCALERS, "db", namespace="default")
        assert UNREACHED in (meta.condition(found, "ConfigUnsupported") or {})["message"]


async def test_histories_survive_a_restart() -> None:
    async with applying() as (made, client):
        recommender = Recommender()
        await client.create(kinds.AUTOSCALERS, autoscaler("Off"))
        await add(client, "db-0")
        for _ in range(50):
            await made.recommend(recommender)
        assert await made.save(recommender, at_once=True) == 1
        assert await made.save(recommender, at_once=True) == 1, "an update of the same object"
        (kept,) = (await client.list(kinds.CHECKPOINTS)).items
        assert kept["spec"] == {"vpaObjectName": "db", "containerName": "c"}
        assert kept["status"]["totalSamplesCount"] == 50
        assert kept["status"]["cpuHistogram"]["bucketWeights"] == {"8": 10_000}
        client.pods.clear()
        former = await client.get(kinds.AUTOSCALERS, "db", namespace="default")
        successor = Recommender()
        await made.restore(successor)
        await made.recommend(successor)
        found = await client.get(kinds.AUTOSCALERS, "db", namespace="default")
        for bound in ("target", "lowerBound"):
            (new,), (old,) = (each["status"]["recommendation"]["containerRecommendations"] for each in (found, former))
            assert new[bound] == old[bound]


async def test_checkpoints_that_nothing_reads_are_deleted() -> None:
    async with applying() as (made, client):
        recommender = Recommender()
        await client.create(kinds.AUTOSCALERS, autoscaler("Off"))
        await add(client, "db-0")
        await made.recommend(recommender)
        now = SystemClock().now()
        history = HistoryState(now, now, 1, (now, np.zeros(VPA_CPU.count)), (now, np.zeros(VPA_MEMORY.count)))
        present = await client.get(kinds.AUTOSCALERS, "db", namespace="default")
        other = {"metadata": {"name": "gone", "namespace": "default", "uid": "g"}}
        for owner, container, at_s in (
            (other, "c", now),
            (present, "renamed", now - EXPIRED_S - 60),
            (present, "recent", now - EXPIRED_S + 3600),
        ):
            document = checkpoints.document(owner, container, history, at_s)
            del document["metadata"]["ownerReferences"]
            await client.create(kinds.CHECKPOINTS, document)
        assert await made.save(recommender, at_once=True) == 1
        kept = {meta.name(each) for each in (await client.list(kinds.CHECKPOINTS)).items}
        assert kept == {"db-c", "db-recent"}
