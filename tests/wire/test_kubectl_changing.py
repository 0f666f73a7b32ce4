"""kubectl patch, label, annotate, taint, cordon, scale, set and rollout against Rota's server."""

import json
import re
from collections.abc import Iterator

import pytest

from rota.testing import manifests
from rota.testing.kubectl import Kubectl
from rota.testing.live import LiveServer

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]


@pytest.fixture
def node(live: LiveServer, kubectl: Kubectl) -> Iterator[str]:
    """The name of a node of the test's own."""
    name = f"node-{kubectl.namespace}"
    live.create("/api/v1/nodes", manifests.node(name))
    yield name
    live.request("DELETE", f"/api/v1/nodes/{name}")


class TestPatch:
    def test_a_strategic_patch_merges_containers_by_name(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        change = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}
        assert kubectl("patch", "deployment", "web", f"--patch={json.dumps(change)}") == "deployment.apps/web patched\n"
        images = kubectl("get", "deployment", "web", "-o=jsonpath={.spec.template.spec.containers[*].image}")
        assert sorted(images.split()) == ["app:1", "side:1"]

    def test_a_merge_patch_replaces_lists_and_removes_nulls(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        change = {
            "metadata": {"labels": {"app": None, "new": "yes"}},
            "spec": {"template": {"spec": {"containers": [{"name": "other", "image": "other:1"}]}}},
        }
        kubectl("patch", "deployment", "web", "--type=merge", f"--patch={json.dumps(change)}")
        web = kubectl.json("get", "deployment", "web")
        assert web["metadata"]["labels"] == {"new": "yes"}
        assert [one["name"] for one in web["spec"]["template"]["spec"]["containers"]] == ["other"]

    def test_a_json_patch_goes_by_position(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        change = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:9"}]
        kubectl("patch", "deployment", "web", "--type=json", f"--patch={json.dumps(change)}")
        assert kubectl("get", "deploy", "web", "-o=jsonpath={.spec.template.spec.containers[0].image}") == "app:9"

    def test_a_json_patch_whose_test_fails_changes_nothing(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c", a="1"))
        change = [
            {"op": "test", "path": "/data/a", "value": "2"},
            {"op": "replace", "path": "/data/a", "value": "3"},
        ]
        refused = kubectl.run("patch", "configmap", "c", "--type=json", f"--patch={json.dumps(change)}")
        assert refused.code == 1
        assert kubectl.json("get", "configmap", "c")["data"] == {"a": "1"}

    def test_the_status_is_patched_alone(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        change = {"status": {"replicas": 1, "readyReplicas": 1}, "spec": {"replicas": 7}}
        kubectl("patch", "deployment", "web", "--subresource=status", "--type=merge", f"--patch={json.dumps(change)}")
        web = kubectl.json("get", "deployment", "web")
        assert (web["status"]["readyReplicas"], web["spec"]["replicas"]) == (1, 1)

    def test_an_immutable_field_is_refused(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        change = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
        refused = kubectl.run("patch", "deployment", "web", "--type=merge", f"--patch={json.dumps(change)}")
        assert refused.code == 1
        assert "field is immutable" in refused.err

    def test_what_changes_nothing_is_said_to(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c", a="1"))
        assert kubectl("patch", "configmap", "c", '--patch={"data":{"a":"1"}}') == "configmap/c patched (no change)\n"


class TestMetadata:
    def test_labels_are_set_changed_and_removed(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c"))
        assert kubectl("label", "configmap", "c", "color=red") == "configmap/c labeled\n"
        refused = kubectl.run("label", "configmap", "c", "color=blue")
        assert (refused.code, "--overwrite is false" in refused.err) == (1, True)
        kubectl("label", "configmap", "c", "color=blue", "--overwrite")
        assert kubectl("get", "cm", "c", "-o=jsonpath={.metadata.labels.color}") == "blue"
        assert kubectl("label", "configmap", "c", "color-") == "configmap/c unlabeled\n"
        assert "color" not in kubectl.json("get", "configmap", "c")["metadata"].get("labels", {})

    def test_labels_with_an_old_version_conflict(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c"))
        old = kubectl.json("get", "configmap", "c")["metadata"]["resourceVersion"]
        kubectl("label", "configmap", "c", "a=1")
        refused = kubectl.run("label", "configmap", "c", "b=2", f"--resource-version={old}")
        assert refused.code == 1
        assert "the object has been modified" in refused.err

    def test_an_invalid_label_is_refused(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c"))
        change = {"metadata": {"labels": {"a": "not valid!"}}}
        refused = kubectl.run("patch", "configmap", "c", f"--patch={json.dumps(change)}")
        assert 'metadata.labels: Invalid value: "not valid!"' in refused.err

    def test_annotations_are_set_on_everything_selected(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("a", labels={"x": "1"}), manifests.config_map("b", labels={"x": "1"}))
        done = kubectl("annotate", "configmaps", "-l=x=1", "note=hello there")
        assert [line.split()[0] for line in done.splitlines()] == ["configmap/a", "configmap/b"]
        assert kubectl("get", "cm", "b", "-o=jsonpath={.metadata.annotations.note}") == "hello there"


class TestNodes:
    def test_taints_are_added_and_removed(self, kubectl: Kubectl, node: str) -> None:
        assert kubectl("taint", "node", node, "gpu=yes:NoSchedule") == f"node/{node} tainted\n"
        kubectl("taint", "node", node, "slow:PreferNoSchedule")
        taints = kubectl.json("get", "node", node)["spec"]["taints"]
        assert {"key": "gpu", "value": "yes", "effect": "NoSchedule"} in taints
        assert {"key": "slow", "effect": "PreferNoSchedule"} in taints
        assert kubectl("taint", "node", node, "gpu-") == f"node/{node} untainted\n"
        assert [taint["key"] for taint in kubectl.json("get", "node", node)["spec"]["taints"]] == ["slow"]

    def test_a_cordoned_node_is_shown_as_such_until_uncordoned(self, kubectl: Kubectl, node: str) -> None:
        assert kubectl("cordon", node) == f"node/{node} cordoned\n"
        assert "Ready,SchedulingDisabled" in kubectl("get", "node", node)
        assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
        assert "SchedulingDisabled" not in kubectl("get", "node", node)


class TestScale:
    def test_replicas_go_through_the_scale_subresource(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web", replicas=1))
        assert kubectl("scale", "deployment", "web", "--replicas=5") == "deployment.apps/web scaled\n"
        web = kubectl.json("get", "deployment", "web")
        assert (web["spec"]["replicas"], web["metadata"]["generation"]) == (5, 2)

    def test_only_from_the_expected_number(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web", replicas=2))
        refused = kubectl.run("scale", "deployment", "web", "--current-replicas=1", "--replicas=5")
        assert refused.code == 1
        assert kubectl("get", "deployment", "web", "-o=jsonpath={.spec.replicas}") == "2"

    def test_an_autoscaler_points_at_its_target(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        done = kubectl("autoscale", "deployment", "web", "--min=2", "--max=8", "--cpu-percent=70")
        assert done == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
        spec = kubectl.json("get", "hpa", "web")["spec"]
        assert (spec["minReplicas"], spec["maxReplicas"], spec["scaleTargetRef"]["name"]) == (2, 8, "web")


class TestRollout:
    def test_a_new_image_is_set(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        assert kubectl("set", "image", "deployment/web", "main=app:2") == "deployment.apps/web image updated\n"
        web = kubectl.json("get", "deployment", "web")
        assert web["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"
        assert web["metadata"]["generation"] == 2

    def test_environment_and_resources_are_set(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        kubectl("set", "env", "deployment/web", "MODE=fast")
        kubectl("set", "resources", "deployment/web", "--requests=cpu=200m")
        container = kubectl.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"][0]
        assert (container["env"], container["resources"]) == (
            [{"name": "MODE", "value": "fast"}],
            {"requests": {"cpu": "200m"}},
        )

    def test_a_restart_touches_the_template(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        assert kubectl("rollout", "restart", "deployment/web") == "deployment.apps/web restarted\n"
        template = kubectl.json("get", "deployment", "web")["spec"]["template"]["metadata"]
        assert "kubectl.kubernetes.io/restartedAt" in template["annotations"]

    def test_the_history_comes_from_owned_replica_sets(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl.apply(manifests.deployment("web"))
        web = kubectl.json("get", "deployment", "web")
        _own_replica_set(live, web, revision=1, image="app:1")
        _own_replica_set(live, web, revision=2, image="app:2")
        shown = kubectl("rollout", "history", "deployment/web")
        assert re.findall(r"^(\d+)\s", shown, re.MULTILINE) == ["1", "2"]
        assert "app:2" in kubectl("rollout", "history", "deployment/web", "--revision=2")

    def test_the_status_follows_what_a_controller_writes(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl.apply(manifests.deployment("web", replicas=2))
        with kubectl.running("rollout", "status", "deployment/web") as lines:
            assert "Waiting for deployment" in lines.next()
            done = {
                "observedGeneration": 1,
                "replicas": 2,
                "updatedReplicas": 2,
                "readyReplicas": 2,
                "availableReplicas": 2,
            }
            code, answer = live.request(
                "PATCH",
                f"/apis/apps/v1/namespaces/{kubectl.namespace}/deployments/web/status",
                {"status": done},
                content_type="application/merge-patch+json",
            )
            assert code == 200, answer
            assert lines.until("successfully") == 'deployment "web" successfully rolled out'

    def test_a_rollout_is_undone_from_its_history(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl.apply(manifests.deployment("web", image="app:2"))
        web = kubectl.json("get", "deployment", "web")
        _own_replica_set(live, web, revision=1, image="app:1")
        _own_replica_set(live, web, revision=2, image="app:2")
        assert kubectl("rollout", "undo", "deployment/web") == "deployment.apps/web rolled back\n"
        image = kubectl("get", "deployment", "web", "-o=jsonpath={.spec.template.spec.containers[0].image}")
        assert image == "app:1"

    def test_a_paused_deployment_resumes(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        assert kubectl("rollout", "pause", "deployment/web") == "deployment.apps/web paused\n"
        assert kubectl("get", "deployment", "web", "-o=jsonpath={.spec.paused}") == "true"
        assert kubectl("rollout", "resume", "deployment/web") == "deployment.apps/web resumed\n"


def _own_replica_set(live: LiveServer, deployment: manifests.Document, *, revision: int, image: str) -> None:
    """What the deployment's controller would have left behind."""
    meta, name = deployment["metadata"], deployment["metadata"]["name"]
    labels = {"app": name, "pod-template-hash": f"hash{revision}"}
    live.create(
        f"/apis/apps/v1/namespaces/{meta['namespace']}/replicasets",
        {
            "metadata": {
                "name": f"{name}-{revision}",
                "labels": labels,
                "annotations": {"deployment.kubernetes.io/revision": str(revision)},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "name": name,
                        "uid": meta["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": image}]},
                },
            },
        },
    )
