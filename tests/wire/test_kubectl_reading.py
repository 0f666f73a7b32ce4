"""kubectl get, describe, explain, events, auth and discovery against Rota's server."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from rota.testing import manifests
from rota.testing.kubectl import Kubectl
from rota.testing.live import LiveServer

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]


def _columns(table: str) -> list[list[str]]:
    """The cells of a printed table, the headings first."""
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


@pytest.fixture
def pods(live: LiveServer, kubectl: Kubectl) -> Iterator[str]:
    """Three pods, of which one runs on a node; yields the node's name."""
    node = f"node-{kubectl.namespace}"
    live.create("/api/v1/nodes", manifests.node(node, zone="a"))
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods"
    live.create(path, manifests.pod("a", on=node, labels={"app": "web", "tier": "front"}))
    live.create(path, manifests.pod("b", labels={"app": "web"}))
    live.create(path, manifests.pod("c", labels={"app": "db"}))
    running = {
        "phase": "Running",
        "podIP": "10.1.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 2,
                "image": "app:1",
                "imageID": "",
                "state": {"running": {}},
            }
        ],
    }
    code, answer = live.request(
        "PATCH", f"{path}/a/status", {"status": running}, content_type="application/merge-patch+json"
    )
    assert code == 200, answer
    yield node
    live.request("DELETE", f"/api/v1/nodes/{node}")


class TestOutputs:
    def test_a_table_shows_readiness_phase_and_restarts(self, kubectl: Kubectl, pods: str) -> None:
        head, *rows = _columns(kubectl("get", "pods"))
        assert head == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert [row[:4] for row in rows] == [
            ["a", "1/1", "Running", "2"],
            ["b", "0/1", "Pending", "0"],
            ["c", "0/1", "Pending", "0"],
        ]

    def test_a_wide_table_shows_node_and_address(self, kubectl: Kubectl, pods: str) -> None:
        head, first, *_ = _columns(kubectl("get", "pods", "-o=wide"))
        assert head[5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
        assert first[5:] == ["10.1.0.1", pods, "<none>", "<none>"]

    def test_yaml_and_json_say_the_same(self, kubectl: Kubectl, pods: str) -> None:
        as_yaml = yaml.safe_load(kubectl("get", "pod", "a", "-o=yaml"))
        as_json = json.loads(kubectl("get", "pod", "a", "-o=json"))
        assert as_yaml == as_json
        assert (as_json["kind"], as_json["apiVersion"], as_json["spec"]["nodeName"]) == ("Pod", "v1", pods)

    def test_jsonpath_goes_through_lists(self, kubectl: Kubectl, pods: str) -> None:
        path = "{range .items[*]}{.metadata.name}={.status.phase};{end}"
        assert kubectl("get", "pods", f"-o=jsonpath={path}") == "a=Running;b=Pending;c=Pending;"

    def test_custom_columns_show_what_was_asked_for(self, kubectl: Kubectl, pods: str) -> None:
        shown = kubectl("get", "pods", "-o=custom-columns=WHO:.metadata.name,APP:.metadata.labels.app")
        assert _columns(shown) == [["WHO", "APP"], ["a", "web"], ["b", "web"], ["c", "db"]]

    def test_names_can_be_handed_on(self, kubectl: Kubectl, pods: str) -> None:
        assert kubectl("get", "pods", "-o=name").split() == ["pod/a", "pod/b", "pod/c"]

    def test_labels_become_columns(self, kubectl: Kubectl, pods: str) -> None:
        head, *rows = _columns(kubectl("get", "pods", "-L=tier"))
        assert head[-1] == "TIER"
        assert rows[0][-1] == "front"

    def test_nodes_show_their_state_and_version(self, kubectl: Kubectl, pods: str) -> None:
        head, row = _columns(kubectl("get", "node", pods))
        assert head == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
        assert (row[:3], row[4]) == ([pods, "Ready", "<none>"], "v1.33.0")

    def test_several_kinds_come_in_tables_of_their_own(self, kubectl: Kubectl, pods: str) -> None:
        kubectl.apply(manifests.deployment("web", replicas=2), manifests.job("once"))
        shown = kubectl("get", "pods,deployments,jobs")
        assert [block.split()[0] for block in shown.split("\n\n")] == ["NAME", "NAME", "NAME"]
        assert {"pod/a", "deployment.apps/web", "job.batch/once"} <= set(shown.split())

    def test_all_is_a_category(self, kubectl: Kubectl, pods: str) -> None:
        kubectl.apply(manifests.deployment("web"), manifests.config_map("not-in-all"))
        assert kubectl("get", "all", "-o=name").split() == ["pod/a", "pod/b", "pod/c", "deployment.apps/web"]

    def test_short_names_work(self, kubectl: Kubectl, pods: str) -> None:
        assert kubectl("get", "po", "-o=name") == kubectl("get", "pod", "-o=name")

    def test_an_unknown_kind_is_named(self, kubectl: Kubectl) -> None:
        refused = kubectl.run("get", "unicorns")
        assert (refused.code, refused.err) == (1, 'error: the server doesn\'t have a resource type "unicorns"\n')

    def test_nothing_found_is_said(self, kubectl: Kubectl) -> None:
        assert kubectl.run("get", "pods").err == f"No resources found in {kubectl.namespace} namespace.\n"
        refused = kubectl.run("get", "pod", "x")
        assert (refused.code, refused.err) == (1, 'Error from server (NotFound): pods "x" not found\n')


class TestSelection:
    def test_every_namespace_is_shown_with_its_name(self, kubectl: Kubectl, pods: str) -> None:
        head, *rows = _columns(kubectl("get", "pods", "-A"))
        assert head[0] == "NAMESPACE"
        assert [kubectl.namespace, "a"] in [row[:2] for row in rows]

    @pytest.mark.parametrize(
        ("selector", "names"),
        [
            ("app=web", "a b"),
            ("app!=web", "c"),
            ("app in (web,db),!tier", "b c"),
            ("tier", "a"),
            ("app notin (db)", "a b"),
        ],
    )
    def test_labels_select(self, kubectl: Kubectl, pods: str, selector: str, names: str) -> None:
        assert kubectl("get", "pods", f"-l={selector}", "-o=jsonpath={.items[*].metadata.name}") == names

    @pytest.mark.parametrize(
        ("selector", "names"),
        [
            ("status.phase=Running", "a"),
            ("status.phase!=Running", "b c"),
            ("metadata.name=b", "b"),
            ("spec.nodeName=", "b c"),
        ],
    )
    def test_fields_select(self, kubectl: Kubectl, pods: str, selector: str, names: str) -> None:
        assert kubectl("get", "pods", f"--field-selector={selector}", "-o=jsonpath={.items[*].metadata.name}") == names

    def test_a_field_that_cannot_be_selected_is_refused(self, kubectl: Kubectl) -> None:
        refused = kubectl.run("get", "pods", "--field-selector=spec.color=red")
        assert refused.code == 1
        assert "field label not supported: spec.color" in refused.err

    def test_rows_are_sorted_by_a_path(self, kubectl: Kubectl, pods: str) -> None:
        rows = _columns(kubectl("get", "pods", "--sort-by=.metadata.labels.app", "--no-headers"))
        assert [row[0] for row in rows] == ["c", "a", "b"]

    def test_large_lists_come_in_chunks(self, kubectl: Kubectl, pods: str) -> None:
        chatty = kubectl.run("get", "pods", "--chunk-size=1", "-v=8")
        assert [row[0] for row in _columns(chatty.out)] == ["NAME", "a", "b", "c"]
        assert len(set(re.findall(r"http://[^\s\"]*limit=1\b[^\s\"]*", chatty.err))) == 3


class TestWatching:
    def test_changes_come_as_rows(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("one"))
        with kubectl.running("get", "configmaps", "--watch") as lines:
            assert lines.next().split() == ["NAME", "DATA", "AGE"]
            assert lines.next().split()[:2] == ["one", "0"]
            kubectl.apply(manifests.config_map("two", a="1"))
            assert lines.next().split()[:2] == ["two", "1"]
            kubectl.apply(manifests.config_map("two", a="1", b="2"))
            assert lines.next().split()[:2] == ["two", "2"]

    def test_only_what_matches_is_seen(self, kubectl: Kubectl) -> None:
        with kubectl.running("get", "configmaps", "--watch", "-l=color=red", "--output-watch-events") as lines:
            kubectl.apply(manifests.config_map("blue", labels={"color": "blue"}))
            kubectl.apply(manifests.config_map("red", labels={"color": "red"}))
            assert lines.until("red").split()[:2] == ["ADDED", "red"]
            kubectl("label", "configmap", "red", "color=blue", "--overwrite")
            assert lines.next().split()[:2] == ["DELETED", "red"]

    def test_one_object_can_be_watched_by_name(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("one"), manifests.config_map("two"))
        with kubectl.running("get", "configmap", "one", "--watch", "--no-headers") as lines:
            assert lines.next().split()[:2] == ["one", "0"]
            kubectl.apply(manifests.config_map("two", a="1"), manifests.config_map("one", a="1"))
            assert lines.next().split()[:2] == ["one", "1"]


class TestDescribe:
    def test_a_pod_with_its_events(self, kubectl: Kubectl, live: LiveServer, pods: str) -> None:
        pod = kubectl.json("get", "pod", "a")
        live.create(
            f"/api/v1/namespaces/{kubectl.namespace}/events",
            {
                "metadata": {"name": "a.1"},
                "involvedObject": {
                    "kind": "Pod",
                    "namespace": kubectl.namespace,
                    "name": "a",
                    "uid": pod["metadata"]["uid"],
                    "apiVersion": "v1",
                },
                "type": "Normal",
                "reason": "Scheduled",
                "message": f"Successfully assigned a to {pods}",
                "source": {"component": "scheduler"},
            },
        )
        text = kubectl("describe", "pod", "a")
        assert re.search(rf"^Node:\s+{pods}", text, re.MULTILINE)
        assert re.search(r"^Status:\s+Running", text, re.MULTILINE)
        assert re.search(r"Image:\s+app:1", text)
        assert re.search(r"QoS Class:\s+BestEffort", text)
        assert re.search(rf"Normal\s+Scheduled\s+\S+\s+scheduler\s+Successfully assigned a to {pods}", text)

    def test_a_node_with_its_pods_and_what_they_ask_for(self, kubectl: Kubectl, pods: str) -> None:
        text = kubectl("describe", "node", pods)
        assert re.search(r"Ready\s+True", text)
        assert re.search(r"cpu:\s+4", text)
        assert "Non-terminated Pods:          (1 in total)" in text
        assert re.search(rf"{kubectl.namespace}\s+a\s+0 \(0%\)", text)
        assert "Allocated resources:" in text

    def test_a_deployment(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web", replicas=2))
        text = kubectl("describe", "deployment", "web")
        assert re.search(r"Selector:\s+app=web", text)
        assert re.search(r"Replicas:\s+2 desired", text)
        assert re.search(r"StrategyType:\s+RollingUpdate", text)

    def test_a_job(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.job("once"))
        text = kubectl("describe", "job", "once")
        assert re.search(r"Completions:\s+1", text)
        assert re.search(r"Parallelism:\s+1", text)


class TestExplain:
    def test_a_nested_field_is_described_with_its_type(self, kubectl: Kubectl) -> None:
        text = kubectl("explain", "pod.spec.containers.resources")
        assert re.search(r"KIND:\s+Pod", text)
        assert re.search(r"(RESOURCE|FIELD): resources <(Object|ResourceRequirements)>", text)
        assert re.search(r"limits\s+<map\[string\](string|Quantity)>", text)

    def test_a_group_can_be_chosen(self, kubectl: Kubectl) -> None:
        text = kubectl("explain", "cronjob.spec.schedule", "--api-version=batch/v1")
        assert re.search(r"FIELD:\s+schedule <string>", text)

    def test_everything_below_is_listed_recursively(self, kubectl: Kubectl) -> None:
        assert re.search(r"maxSurge\s+<(string|IntOrString)>", kubectl("explain", "deployment.spec", "--recursive"))

    def test_a_field_that_does_not_exist_is_refused(self, kubectl: Kubectl) -> None:
        refused = kubectl.run("explain", "pod.spec.colour")
        assert (refused.code, "colour" in refused.err) == (1, True)


class TestEvents:
    def test_are_listed_for_one_object(self, kubectl: Kubectl, live: LiveServer) -> None:
        for name in ("x", "y"):
            live.create(
                f"/api/v1/namespaces/{kubectl.namespace}/events",
                {
                    "metadata": {"name": f"{name}.1"},
                    "involvedObject": {
                        "kind": "Pod",
                        "apiVersion": "v1",
                        "name": name,
                        "namespace": kubectl.namespace,
                    },
                    "type": "Warning",
                    "reason": "FailedScheduling",
                    "message": f"0/3 nodes fit {name}",
                    "lastTimestamp": "2026-01-01T00:00:00Z",
                },
            )
        shown = kubectl("events", "--for=pod/x")
        assert re.search(r"Warning\s+FailedScheduling\s+Pod/x\s+0/3 nodes fit x", shown)
        assert "fit y" not in shown
        assert re.search(r"pod/y\s+0/3 nodes fit y", kubectl("get", "events"))


class TestWhatTheServerIs:
    def test_kinds_are_listed_with_their_short_names(self, kubectl: Kubectl) -> None:
        rows = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]
        assert ["pods", "po", "v1", "true", "Pod"] in rows
        assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
        assert ["nodes", "no", "v1", "false", "Node"] in rows

    def test_kinds_are_listed_by_verb_and_group(self, kubectl: Kubectl) -> None:
        shown = kubectl("api-resources", "--api-group=batch", "--verbs=list,watch", "-o=name")
        assert shown.split() == ["cronjobs.batch", "jobs.batch"]

    def test_versions_are_listed(self, kubectl: Kubectl) -> None:
        assert {"v1", "apps/v1", "batch/v1", "policy/v1", "coordination.k8s.io/v1"} <= set(
            kubectl("api-versions").split()
        )

    def test_the_server_tells_its_version(self, kubectl: Kubectl) -> None:
        version = json.loads(kubectl("version", "--output=json"))["serverVersion"]
        assert (version["major"], version["gitVersion"].startswith("v1.")) == ("1", True)

    def test_raw_paths_are_answered(self, kubectl: Kubectl) -> None:
        assert kubectl("get", "--raw=/readyz") == "ok"
        assert json.loads(kubectl("get", "--raw=/api/v1/namespaces/default"))["kind"] == "Namespace"


class TestRights:
    def test_the_asker_may_do_what_it_asks_about(self, kubectl: Kubectl) -> None:
        assert kubectl("auth", "can-i", "create", "deployments.apps") == "yes\n"
        assert re.search(r"\*\.\*\s+\[\]\s+\[\]\s+\[\*\]", kubectl("auth", "can-i", "--list"))

    def test_a_self_review_returns_the_user(self, kubectl: Kubectl) -> None:
        shown = kubectl.run("auth", "whoami", "--output=json")
        if shown.code:  # before 1.28 kubectl asks in versions that upstream has given up as well
            assert "the selfsubjectreviews API is not enabled in the cluster" in shown.err
        else:
            assert json.loads(shown.out)["status"]["userInfo"]["username"]


class TestWhatIsNotThere:
    def test_top_reports_missing_metrics(self, kubectl: Kubectl) -> None:
        refused = kubectl.run("top", "nodes")
        assert (refused.code, refused.err) == (1, "error: Metrics API not available\n")

    def test_a_pod_without_a_node_has_said_nothing(self, kubectl: Kubectl) -> None:
        kubectl("run", "p", "--image=app:1")
        assert kubectl("logs", "p") == ""
        refused = kubectl.run("logs", "p", "--container=other")
        assert "container other is not valid for pod p" in refused.err

    def test_exec_is_refused(self, kubectl: Kubectl, pods: str) -> None:
        refused = kubectl.run("exec", "a", "--", "true")
        assert refused.code == 1
        assert refused.err.startswith(("Error from server", "error:"))
