"""MemberReports: what agents tell the accurate estimator and FederatedHPAs, and what of that is not used."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.federation.test_member_nodes import TAINT, _node, _pod

from rota.api import errors, meta
from rota.client.informers.shared_informers import SharedInformers
from rota.client.verbs import Client, Object
from rota.federation import kinds, member_reports, object_names
from rota.federation.control import federation
from rota.federation.control.accounts import role_name
from rota.federation.control.cluster_loop import ClusterLoop
from rota.federation.control.federated_autoscalers import FederatedAutoscalers
from rota.federation.control.fences import Fences
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.member import summaries
from rota.federation.member.agent import Agent, Settings
from rota.federation.member.served_kinds import Types
from rota.kit.metrics import Metrics
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.testing.virtual_api import VirtualCluster

HERE = "default"
SPACE = object_names.execution_space("m1")
DEPLOYMENTS = ("apps", "v1", "deployments")
PODS = ("", "v1", "pods")
POD_METRICS = ("metrics.k8s.io", "v1beta1", "pods")
ASKED = {"resourceRequest": {"cpu": "1"}}


# --- answers ----------------------------------------------------------------------------------------------------------


def _answered(report: dict[str, Any], **answer: Any) -> dict[str, Any]:
    metadata = {**report["metadata"], "generation": 1}
    return {**report, "metadata": metadata, "status": {"observedGeneration": 1, **answer}}


def test_nodes_are_the_same_after_a_report() -> None:
    given = [_node("a", labels={"disk": "fast"}), _node("b", "6", taints=[TAINT]), _node("c", unschedulable=True)]
    shares = [summaries.node_share(one) for one in given]
    found = summaries.capacities(shares, [share for share in [summaries.pod_share(_pod("p", "a", "1500m"))] if share])
    report = _answered(member_reports.about_nodes("m1"), **member_reports.written_nodes(found))
    assert member_reports.nodes(report) == found


@pytest.mark.parametrize(
    "nodes",
    [
        "all",
        [{"name": "a"}],
        [{"name": "a", "free": {"cpu": "much"}}],
        [{"name": "a", "free": {"cpu": "-1"}}],
        [{"name": "a", "free": {"cpu": "1e2000"}}],
        [{"name": "a", "free": {}, "labels": {"zone": 7}}],
        [{"name": "a", "free": {}, "taints": [{"key": ["gpu"]}]}],
        [{"name": "x" * 600, "free": {}}],
        [{"name": "a", "free": {}}] * (member_reports.MOST_NODES + 1),
    ],
)
def test_nodes_in_another_form_or_out_of_bounds_are_not_used(nodes: Any) -> None:
    with pytest.raises(member_reports.Unusable, match="cannot be used"):
        member_reports.nodes(_answered(member_reports.about_nodes("m1"), nodes=nodes))


@pytest.mark.parametrize(
    "answer",
    [
        {"pods": [{"metadata": {}}]},
        {"pods": [{"metadata": {"name": "p"}, "status": {"startTime": "yesterday"}}]},
        {"pods": [{"metadata": {"name": "p"}, "status": {"conditions": ["Ready"]}}]},
        {"metrics": [{"metadata": {"name": "p"}, "containers": [{"name": "c", "usage": {"cpu": "-5"}}]}]},
        {"metrics": [{"metadata": {"name": "p"}, "containers": [{"name": "c", "usage": {"cpu": "1e2000"}}]}]},
        {"pods": [{"metadata": {"name": "p"}}] * (member_reports.MOST_PODS + 1)},
        {"problem": "the metrics are not served"},
        {"observedGeneration": 0},
    ],
)
def test_pods_in_another_form_or_out_of_bounds_are_not_used(answer: dict[str, Any]) -> None:
    with pytest.raises(member_reports.Unusable):
        member_reports.pods(_answered(member_reports.about_pods("m1", "a/b", "a", "app=web"), **answer))


def test_an_agent_does_not_report_more_than_is_used() -> None:
    one = summaries.node_share(_node("a")).node
    with pytest.raises(member_reports.Unusable, match="5001 nodes, and a report holds 5000"):
        member_reports.written_nodes([one] * (member_reports.MOST_NODES + 1))
    wordy = one._replace(labels={f"label-{number}": "x" * 60 for number in range(200)})
    with pytest.raises(member_reports.Unusable, match="bytes"):
        member_reports.written_nodes([wordy] * 100)


# --- an agent and the loops of a control plane ------------------------------------------------------------------------


def _metrics_definition() -> dict[str, Any]:
    """The kind that a metrics server serves."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/metrics"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "names": {"kind": "PodMetrics", "plural": "pods", "singular": "pod", "listKind": "PodMetricsList"},
            "scope": "Namespaced",
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}],
        },
    }


def _labelled(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "labels": {"app": "web"}}}


def _use(name: str, cpu: str) -> dict[str, Any]:
    return _labelled(
        {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": name, "namespace": HERE},
            "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "1Mi"}}],
        }
    )


def _deployment(replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": HERE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def _autoscaler() -> dict[str, Any]:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": "web", "namespace": HERE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": metric}],
        },
    }


def _binding() -> dict[str, Any]:
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": HERE},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": HERE},
            "clusters": [{"name": "m1", "replicas": 2}],
        },
    }


class Place:
    """A control plane with the loops under test, and a pull member with its agent."""

    def __init__(self, control: VirtualCluster, member: VirtualCluster, nodes: MemberNodes, folder: Path) -> None:
        self.control, self.member, self.nodes = control, member, nodes
        account = f"system:serviceaccount:{kinds.CLUSTER_NAMESPACE}:m1"
        settings = Settings(every_s=5, threshold_s=5, renew_every_s=5)
        self.acting: Client = control.acting_as(account, f"system:serviceaccounts:{kinds.CLUSTER_NAMESPACE}")
        self.agent = Agent(
            self.acting, member.client, "m1", folder, clock=control.clock, rng=control.rng, settings=settings
        )

    async def report(self, name: str) -> Object | None:
        """A report of the member."""
        for one in (await self.control.client.list(kinds.MEMBER_REPORTS, namespace=SPACE)).items:
            if meta.name(one).startswith(name):
                return one
        return None

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for a condition that is known without asking."""

        async def holds() -> bool:
            return bool(condition())

        await self.control.until(holds)

    async def replicas(self, wanted: int) -> None:
        """Wait until the template has so many."""

        async def reached() -> bool:
            found = await self.control.client.get(DEPLOYMENTS, "web", namespace=HERE)
            return bool(found["spec"]["replicas"] == wanted)

        await self.control.until(reached)

    async def inactive(self, why: str) -> None:
        """Wait until the autoscaler says why it does nothing."""

        async def said() -> bool:
            found = await self.control.client.get(kinds.FEDERATED_HPAS, "web", namespace=HERE)
            condition = meta.condition(found, "ScalingActive") or {}
            return condition.get("status") == "False" and why in condition["message"]

        await self.control.until(said)


@contextlib.asynccontextmanager
async def _place(folder: Path) -> AsyncIterator[Place]:
    async with contextlib.AsyncExitStack() as stack:
        clock = FakeClock()
        control = VirtualCluster(await stack.enter_async_context(ApiServer(clock=clock)), clock)
        member = VirtualCluster(await stack.enter_async_context(ApiServer(clock=clock)), clock)
        stack.push_async_callback(control.close)
        stack.push_async_callback(member.close)
        await stack.enter_async_context(
            control.running(functools.partial(federation.install, control.client, clock=clock))
        )

        async def installed() -> bool:
            return await control.exists(("rbac.authorization.k8s.io", "v1", "clusterroles"), role_name("namespaces"))

        await control.until(installed)
        await control.client.create(
            kinds.CLUSTERS,
            {
                "apiVersion": "cluster.karmada.io/v1alpha1",
                "kind": "Cluster",
                "metadata": {"name": "m1"},
                "spec": {"syncMode": "Pull"},
            },
        )
        rng, nodes = control.rng, MemberNodes()
        seen = {kinds.CLUSTERS, kinds.BINDINGS, kinds.WORKS, kinds.MEMBER_REPORTS}
        reader = control.acting_as(role_name("reader"))
        shared = SharedInformers(reader, seen, clock=clock, rng=rng, metrics=Metrics("federation"))

        def account(loop: str) -> Client:
            return control.acting_as(role_name(loop)).with_settings(informers=shared)

        clusters, autoscalers = account("clusters"), account("autoscalers")
        fences = Fences(clusters, clock=clock)
        loops: list[Callable[[], Any]] = [
            ClusterLoop(clusters, clock=clock, rng=rng, fences=fences, every_s=5, lease_grace_s=20, nodes=nodes).run,
            FederatedAutoscalers(autoscalers, Types(control.client), clock=clock, rng=rng).run,
            shared.run,
        ]
        for loop in loops:
            await stack.enter_async_context(control.running(loop))
        yield Place(control, member, nodes, folder)


async def test_nodes_of_a_pull_member_are_known_while_its_agent_renews(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        await place.member.client.create(("", "v1", "nodes"), _node("a"))
        async with place.control.running(place.agent.run):
            await place.until(lambda: place.nodes.replicas(ASKED) == {"m1": 4})
            await place.member.client.create(("", "v1", "nodes"), _node("b", "2"))
            await place.until(lambda: place.nodes.replicas(ASKED) == {"m1": 6})
            # an agent changes its answer, and neither the question nor another cluster's
            for verb in ("create", "delete", "patch"):
                with pytest.raises(errors.Forbidden):
                    await _tried(place.acting, verb)
        # the agent is gone: the cluster is not ready after its grace, and nothing is known of it
        await place.until(lambda: place.nodes.replicas(ASKED) == {})


async def _tried(client: Client, verb: str) -> None:
    if verb == "create":
        await client.create(kinds.MEMBER_REPORTS, member_reports.about_pods("m1", "a/b", "a", ""))
    elif verb == "delete":
        await client.delete(kinds.MEMBER_REPORTS, member_reports.NODES, namespace=SPACE)
    else:
        change = {"metadata": {"annotations": {member_reports.AUTOSCALER: "a/b"}}}
        await client.patch(kinds.MEMBER_REPORTS, member_reports.NODES, change, namespace=SPACE)


async def test_garbage_about_nodes_is_refused_or_forgotten(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        await place.member.client.create(("", "v1", "nodes"), _node("a"))
        async with place.control.running(place.agent.run):
            await place.until(lambda: place.nodes.replicas(ASKED) == {"m1": 4})
            # the server refuses another form; what has the form and no sense is not used, until the agent answers again
            with pytest.raises(errors.Invalid):
                await _answer(place, [{"name": "a"}])
            await _answer(place, [{"name": "a", "free": {"cpu": "much"}}])
            await place.until(lambda: place.nodes.replicas(ASKED) == {})
            await place.until(lambda: place.nodes.replicas(ASKED) == {"m1": 4})


async def _answer(place: Place, nodes: list[Any]) -> None:
    await place.acting.patch(
        kinds.MEMBER_REPORTS, member_reports.NODES, {"status": {"nodes": nodes}}, namespace=SPACE, subresource="status"
    )


async def test_a_federated_autoscaler_follows_the_pods_of_a_pull_member(tmp_path: Path) -> None:
    async with _place(tmp_path) as place:
        control, member = place.control.client, place.member.client
        await control.create(DEPLOYMENTS, _deployment(2))
        await control.create(kinds.BINDINGS, _binding())
        await member.create(("", "v1", "nodes"), _node("a"))
        for name in ("web-1", "web-2"):
            await member.create(PODS, _labelled(_pod(name, "a", "200m")))
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
            status = {"phase": "Running", "startTime": "2020-01-01T00:00:00Z", "conditions": [ready]}
            await member.patch(PODS, name, {"status": status}, namespace=HERE, subresource="status")
        async with place.control.running(place.agent.run):
            await control.create(kinds.FEDERATED_HPAS, _autoscaler())
            # without a metrics server, the reason arrives
            await place.inactive("m1: the agent reports")
            await member.create(kinds.DEFINITIONS, _metrics_definition())
            await place.member.until(functools.partial(_measured, member))
            # 200m of 200m with a target of half: twice the replicas
            await place.replicas(4)
            patch = {"containers": [{"name": "c", "usage": {"cpu": "600m", "memory": "1Mi"}}]}
            for name in ("web-1", "web-2"):
                await member.patch(POD_METRICS, name, patch, namespace=HERE)
            await place.replicas(5)
            # an agent is not asked about a target without pods
            await control.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, namespace=HERE)
            await place.control.until(functools.partial(_unasked, place))
            await control.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}}, namespace=HERE)
            await place.replicas(5)
        # answers of an agent that is gone do not count
        await place.inactive("m1: the cluster is not ready")
        assert await place.report("pod-metrics") is not None
        await control.delete(kinds.FEDERATED_HPAS, "web", namespace=HERE)
        await place.control.until(functools.partial(_unasked, place))


async def _unasked(place: Place) -> bool:
    """Whether no agent is asked about pods."""
    return await place.report("pod-metrics") is None


async def _measured(member: Client) -> bool:
    """Whether the metrics of both pods are served."""
    try:
        for name in ("web-1", "web-2"):
            with contextlib.suppress(errors.AlreadyExists):
                await member.create(POD_METRICS, _use(name, "200m"))
    except errors.NotFound:
        return False
    return True
