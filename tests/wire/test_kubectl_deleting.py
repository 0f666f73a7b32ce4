"""kubectl delete, wait and drain against Rota's server."""

from collections.abc import Iterator

import pytest

from rota.testing import manifests
from rota.testing.kubectl import Kubectl
from rota.testing.live import LiveServer

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]

MERGE = "application/merge-patch+json"


@pytest.fixture
def node(live: LiveServer, kubectl: Kubectl) -> Iterator[str]:
    """The name of a node of the test's own."""
    name = f"node-{kubectl.namespace}"
    live.create("/api/v1/nodes", manifests.node(name))
    yield name
    live.request("DELETE", f"/api/v1/nodes/{name}")


class TestDelete:
    def test_an_object_goes_and_kubectl_sees_it_gone(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c"))
        assert kubectl("delete", "configmap", "c").startswith('configmap "c" deleted')
        assert 'configmaps "c" not found' in kubectl.run("get", "configmap", "c").err

    def test_what_is_not_there_is_refused_unless_ignored(self, kubectl: Kubectl) -> None:
        refused = kubectl.run("delete", "configmap", "c")
        assert (refused.code, refused.err) == (1, 'Error from server (NotFound): configmaps "c" not found\n')
        assert kubectl("delete", "configmap", "c", "--ignore-not-found") == ""

    def test_a_selector_takes_only_its_own(self, kubectl: Kubectl) -> None:
        for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
            kubectl("create", "configmap", name)
            kubectl("label", "configmap", name, f"color={color}")
        kubectl("delete", "configmaps", "-l=color=red")
        assert kubectl("get", "configmaps", "-o=name") == "configmap/c\n"

    def test_all_of_several_kinds(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("a"), manifests.config_map("b"), manifests.job("j"))
        kubectl("delete", "configmaps,jobs", "--all")
        assert kubectl("get", "configmaps,jobs", "-o=name") == ""

    def test_a_pod_on_a_node_stays_until_its_worker_confirms(
        self, kubectl: Kubectl, live: LiveServer, node: str
    ) -> None:
        path = f"/api/v1/namespaces/{kubectl.namespace}/pods"
        live.create(path, manifests.pod("p", on=node))
        kubectl("delete", "pod", "p", "--wait=false", "--grace-period=40")
        assert "Terminating" in kubectl("get", "pod", "p")
        metadata = kubectl.json("get", "pod", "p")["metadata"]
        assert (metadata["deletionGracePeriodSeconds"], "deletionTimestamp" in metadata) == (40, True)
        # so does a worker when every container has ended
        assert live.request("DELETE", f"{path}/p", {"gracePeriodSeconds": 0})[0] == 200
        assert kubectl.run("get", "pod", "p").code == 1

    def test_a_pod_on_a_node_goes_at_once_by_force(self, kubectl: Kubectl, live: LiveServer, node: str) -> None:
        live.create(f"/api/v1/namespaces/{kubectl.namespace}/pods", manifests.pod("p", on=node))
        done = kubectl("delete", "pod", "p", "--force", "--grace-period=0")
        assert 'pod "p" force deleted' in done
        assert kubectl.run("get", "pod", "p").code == 1

    def test_a_pod_without_a_node_goes_at_once(self, kubectl: Kubectl) -> None:
        kubectl("run", "p", "--image=app:1")
        kubectl("delete", "pod", "p")
        assert kubectl.run("get", "pod", "p").code == 1

    def test_a_finalizer_keeps_an_object_until_it_is_removed(self, kubectl: Kubectl) -> None:
        held = manifests.config_map("c")
        held["metadata"]["finalizers"] = ["example.com/wait"]
        kubectl.apply(held)
        kubectl("delete", "configmap", "c", "--wait=false")
        assert "deletionTimestamp" in kubectl.json("get", "configmap", "c")["metadata"]
        kubectl("patch", "configmap", "c", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
        assert kubectl.run("get", "configmap", "c").code == 1

    def test_dry_run_deletes_nothing(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c"))
        assert "(server dry run)" in kubectl("delete", "configmap", "c", "--dry-run=server")
        assert kubectl("get", "configmap", "c", "-o=name") == "configmap/c\n"


class TestWait:
    def test_for_a_condition(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl.apply(manifests.job("once"))
        with (
            live.watched() as watched,
            kubectl.running("wait", "--for=condition=Complete", "job/once", "--timeout=20s") as lines,
        ):
            watched()
            # the times are such that a finished job is valid
            condition = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"}
            status = {
                "conditions": [
                    {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"},
                    condition,
                ],
                "startTime": "2026-01-01T00:00:00Z",
                "completionTime": "2026-01-01T00:00:02Z",
                "succeeded": 1,
            }
            path = f"/apis/batch/v1/namespaces/{kubectl.namespace}/jobs/once/status"
            code, answer = live.request("PATCH", path, {"status": status}, content_type=MERGE)
            assert code == 200, answer
            assert lines.next() == "job.batch/once condition met"

    def test_for_a_value(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl("run", "p", "--image=app:1")
        with (
            live.watched() as watched,
            kubectl.running("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=20s") as lines,
        ):
            watched()
            path = f"/api/v1/namespaces/{kubectl.namespace}/pods/p/status"
            code, answer = live.request("PATCH", path, {"status": {"phase": "Running"}}, content_type=MERGE)
            assert code == 200, answer
            assert lines.next() == "pod/p condition met"

    def test_for_the_end(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl.apply(manifests.config_map("c"))
        with (
            live.watched() as watched,
            kubectl.running("wait", "--for=delete", "configmap/c", "--timeout=20s") as lines,
        ):
            watched()
            assert live.request("DELETE", f"/api/v1/namespaces/{kubectl.namespace}/configmaps/c")[0] == 200
            assert lines.next() == "configmap/c condition met"

    def test_gives_up_in_time(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.job("once"))
        refused = kubectl.run("wait", "--for=condition=Complete", "job/once", "--timeout=1s")
        assert (refused.code, refused.err) == (1, "error: timed out waiting for the condition on jobs/once\n")


class TestDrain:
    def test_evicts_every_pod_and_leaves_the_node_cordoned(self, kubectl: Kubectl, live: LiveServer, node: str) -> None:
        path = f"/api/v1/namespaces/{kubectl.namespace}/pods"
        for name in ("a", "b"):
            live.create(path, manifests.pod(name, on=node, terminationGracePeriodSeconds=0))
        done = kubectl("drain", node, "--force", "--timeout=20s")
        assert f"evicting pod {kubectl.namespace}/a" in done
        assert f"node/{node} drained" in done
        assert kubectl("get", "pods", "-o=name") == ""
        assert "SchedulingDisabled" in kubectl("get", "node", node)

    def test_leaves_pods_of_daemon_sets_and_asks_for_force(self, kubectl: Kubectl, live: LiveServer, node: str) -> None:
        live.create(f"/api/v1/namespaces/{kubectl.namespace}/pods", manifests.pod("lonely", on=node))
        refused = kubectl.run("drain", node, "--timeout=20s")
        assert refused.code == 1
        assert "cannot delete" in refused.err
        assert "lonely" in refused.err

    def test_waits_for_the_budget_and_goes_on_when_it_allows(
        self, kubectl: Kubectl, live: LiveServer, node: str
    ) -> None:
        namespace = kubectl.namespace
        pods = f"/api/v1/namespaces/{namespace}/pods"
        live.create(pods, manifests.pod("guarded", on=node, labels={"app": "db"}, terminationGracePeriodSeconds=0))
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        code, answer = live.request("PATCH", f"{pods}/guarded/status", {"status": ready}, content_type=MERGE)
        assert code == 200, answer
        budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        live.create(budgets, manifests.budget("db", min_available=1, app="db"))
        self._allow(live, f"{budgets}/db", disruptions=0)
        with kubectl.running("drain", node, "--force", "--timeout=25s") as lines:
            refusal = lines.until("error when evicting")
            assert "Cannot evict pod as it would violate the pod's disruption budget" in refusal
            assert kubectl("get", "pods", "-o=name") == "pod/guarded\n"
            self._allow(live, f"{budgets}/db", disruptions=1)
            assert lines.until("pod/guarded evicted")
            assert lines.until("drained") == f"node/{node} drained"
        assert kubectl.json("get", "pdb", "db")["status"]["disruptionsAllowed"] == 0

    def _allow(self, live: LiveServer, path: str, *, disruptions: int) -> None:
        """What the budget's controller would find."""
        _, budget = live.request("GET", path)
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": disruptions,
            "currentHealthy": 1 + disruptions,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        code, answer = live.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)
        assert code == 200, answer
