"""`pods/explain` of an API server with a scheduler behind it."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from rota.api import errors
from rota.apiserver.subresources.explain import LateBoundExplainer
from rota.client.pods import PODS
from rota.scheduler.explanation import explain_client
from rota.scheduler.explanation.live_explainer import LiveExplainer
from rota.scheduler.hints import explanation_report
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.testing.schedulers import SchedulingCluster


@pytest.fixture
def door() -> LateBoundExplainer:
    return LateBoundExplainer()


@pytest.fixture
async def cluster(door: LateBoundExplainer) -> AsyncIterator[SchedulingCluster]:
    clock = FakeClock()
    async with ApiServer(clock=clock, explainer=door) as server:
        made = SchedulingCluster(server, clock)
        yield made
        await made.close()


@contextlib.asynccontextmanager
async def explaining(cluster: SchedulingCluster, door: LateBoundExplainer, config: str = "") -> AsyncIterator[None]:
    async with cluster.scheduling(config) as scheduler:
        door.explainer = LiveExplainer(scheduler)
        yield


async def explain(cluster: SchedulingCluster, name: str, **query: str) -> explanation_report.Explanation:
    path = f"/api/v1/namespaces/default/pods/{name}/explain"
    answer = await cluster.server.get(path, **query)
    assert answer.code == 200, answer
    return explanation_report.from_wire(answer.json)


async def test_a_waiting_pod_is_explained_by_the_scheduler_itself(
    cluster: SchedulingCluster, door: LateBoundExplainer
) -> None:
    await cluster.add_node("n1")
    await cluster.add_node("n2")
    async with explaining(cluster, door):
        await cluster.add_pod("big", cpu="5")
        await cluster.refused("big")
        told = await explain(cluster, "big")
        assert told.outcome == "Unschedulable"
        assert [change.text for change in told.changes] == [
            "requests 5 cpu; 2 nodes have 4 at most, even when empty: request less, or add a larger node"
        ]
        one = await explain(cluster, "big", node="n2")
        assert [node.name for node in one.nodes] == ["n2"]
        assert (await explain(cluster, "big", limit="1")).omitted == 1


async def test_a_bound_pod_is_explained_and_stays_where_it_is(
    cluster: SchedulingCluster, door: LateBoundExplainer
) -> None:
    await cluster.add_node("n1")
    async with explaining(cluster, door):
        await cluster.add_pod("web")
        await cluster.bound("web", "n1")
        told = await explain(cluster, "web")
        assert (told.current_node, told.node, told.outcome) == ("n1", "n1", "Schedulable")


async def test_the_client_asks_the_server_and_makes_do_without(
    cluster: SchedulingCluster, door: LateBoundExplainer
) -> None:
    await cluster.add_node("n1")
    await cluster.add_pod("web")
    assert await explain_client.of_server(cluster.client, "web", namespace="default", most=100) is None
    async with explaining(cluster, door):
        told = await explain_client.of_server(cluster.client, "web", namespace="default", most=100)
        assert told is not None
        assert told.metadata.name == "web"
        await cluster.add_pod("other", schedulerName="somebody-else")
        told = await explain_client.of_server(cluster.client, "other", namespace="default", most=100)
        assert told is not None
        assert (told.outcome, told.node, told.nodes) == ("Held", "", ())
        assert 'waits for a scheduler named "somebody-else"' in told.summary


@pytest.mark.parametrize(
    ("name", "query", "code", "message"),
    [
        ("nobody", {}, 404, 'pods "nobody" not found'),
        ("web", {"node": "n9"}, 400, 'the cluster has no node "n9"'),
        ("web", {"limit": "many"}, 400, 'limit must be a number from 1 to 100000, not "many"'),
    ],
)
async def test_what_cannot_be_explained_is_refused(
    cluster: SchedulingCluster, door: LateBoundExplainer, *, name: str, query: dict[str, str], code: int, message: str
) -> None:
    await cluster.add_node("n1")
    async with explaining(cluster, door):
        await cluster.add_pod("web")
        answer = await cluster.server.get(f"/api/v1/namespaces/default/pods/{name}/explain", **query)
        assert (answer.code, answer.json["message"]) == (code, message)


async def test_a_server_without_a_scheduler_has_no_such_subresource(cluster: SchedulingCluster) -> None:
    async with ApiServer() as bare:
        answer = await bare.get("/api/v1")
        assert "pods/explain" not in {one["name"] for one in answer.json["resources"]}
    answer = await cluster.server.get("/api/v1")
    (found,) = (one for one in answer.json["resources"] if one["name"] == "pods/explain")
    assert (found["group"], found["version"], found["kind"], found["verbs"]) == (
        "rota.dev",
        "v1alpha1",
        "Explanation",
        ["get"],
    )


async def test_a_scheduler_that_has_not_come_up_is_waited_for(cluster: SchedulingCluster) -> None:
    await cluster.add_pod("web")
    with pytest.raises(errors.ServiceUnavailable, match="ask again in a moment"):
        await cluster.client.get(PODS, "web", namespace="default", subresource="explain")
