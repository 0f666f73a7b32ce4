"""kubectl create, apply, diff and replace against Rota's server."""

import json
from pathlib import Path

import pytest

from rota.testing import manifests
from rota.testing.kubectl import Kubectl, documents
from rota.testing.live import LiveServer

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]


class TestGenerators:
    def test_a_job_is_created_with_its_command(self, kubectl: Kubectl) -> None:
        assert kubectl("create", "job", "hello", "--image=app:1", "--", "echo", "hi") == "job.batch/hello created\n"
        job = kubectl.json("get", "job", "hello")
        container = job["spec"]["template"]["spec"]["containers"][0]
        assert (container["image"], container["command"]) == ("app:1", ["echo", "hi"])
        assert (job["spec"]["backoffLimit"], job["spec"]["completions"]) == (6, 1)

    def test_a_cron_job_keeps_its_schedule_and_makes_jobs(self, kubectl: Kubectl) -> None:
        kubectl("create", "cronjob", "tick", "--image=app:1", "--schedule=*/5 * * * *", "--", "date")
        assert kubectl("create", "job", "now", "--from=cronjob/tick") == "job.batch/now created\n"
        assert kubectl("get", "cronjob", "tick", "-o=jsonpath={.spec.schedule}") == "*/5 * * * *"
        owner = kubectl.json("get", "job", "now")["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"]) == ("CronJob", "tick")

    def test_a_deployment_gets_the_defaults_that_kubectl_left_out(self, kubectl: Kubectl) -> None:
        created = kubectl("create", "deployment", "web", "--image=app:1", "--replicas=3", "--port=80")
        assert created == "deployment.apps/web created\n"
        spec = kubectl.json("get", "deployment", "web")["spec"]
        assert (spec["replicas"], spec["strategy"]["type"], spec["revisionHistoryLimit"]) == (3, "RollingUpdate", 10)
        container = spec["template"]["spec"]["containers"][0]
        assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        assert container["imagePullPolicy"] == "IfNotPresent"

    def test_a_namespace_is_active_and_labelled_with_its_name(self, kubectl: Kubectl) -> None:
        name = f"{kubectl.namespace}-more"
        assert kubectl("create", "namespace", name) == f"namespace/{name} created\n"
        namespace = kubectl.json("get", "namespace", name)
        assert namespace["status"]["phase"] == "Active"
        assert namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] == name

    def test_a_config_map_holds_literals_and_files(self, kubectl: Kubectl, tmp_path: Path) -> None:
        (tmp_path / "notes").write_text("first\nsecond\n")
        kubectl("create", "configmap", "c", "--from-literal=color=blue", f"--from-file={tmp_path / 'notes'}")
        assert kubectl.json("get", "configmap", "c")["data"] == {"color": "blue", "notes": "first\nsecond\n"}

    def test_a_secret_is_stored_in_base64(self, kubectl: Kubectl) -> None:
        assert kubectl("create", "secret", "generic", "s", "--from-literal=key=open") == "secret/s created\n"
        secret = kubectl.json("get", "secret", "s")
        assert (secret["type"], secret["data"]) == ("Opaque", {"key": "b3Blbg=="})

    def test_a_service_account_is_created(self, kubectl: Kubectl) -> None:
        assert kubectl("create", "serviceaccount", "robot") == "serviceaccount/robot created\n"
        assert kubectl("get", "serviceaccounts", "-o=name") == "serviceaccount/robot\n"

    def test_a_quota_keeps_its_hard_limits(self, kubectl: Kubectl) -> None:
        assert kubectl("create", "quota", "q", "--hard=pods=3,cpu=2") == "resourcequota/q created\n"
        assert kubectl.json("get", "quota", "q")["spec"]["hard"] == {"pods": "3", "cpu": "2"}

    def test_a_priority_class_keeps_its_value(self, kubectl: Kubectl) -> None:
        name = f"urgent-{kubectl.namespace}"
        created = kubectl("create", "priorityclass", name, "--value=1000", "--description=first of all")
        assert created == f"priorityclass.scheduling.k8s.io/{name} created\n"
        priority = kubectl.json("get", "priorityclass", name)
        assert (priority["value"], priority["preemptionPolicy"]) == (1000, "PreemptLowerPriority")

    def test_a_role_and_its_binding_name_each_other(self, kubectl: Kubectl) -> None:
        assert (
            kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,jobs.batch")
            == "role.rbac.authorization.k8s.io/reader created\n"
        )
        rules = kubectl.json("get", "role", "reader")["rules"]
        assert {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]} in rules
        kubectl("create", "rolebinding", "readers", "--role=reader", "--user=ann", "--group=staff")
        binding = kubectl.json("get", "rolebinding", "readers")
        assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
        assert [subject["name"] for subject in binding["subjects"]] == ["ann", "staff"]

    def test_a_disruption_budget_keeps_its_selector(self, kubectl: Kubectl) -> None:
        created = kubectl("create", "poddisruptionbudget", "b", "--selector=app=web", "--min-available=50%")
        assert created == "poddisruptionbudget.policy/b created\n"
        spec = kubectl.json("get", "pdb", "b")["spec"]
        assert spec == {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}

    def test_a_service_and_an_ingress_are_created(self, kubectl: Kubectl) -> None:
        assert kubectl("create", "service", "clusterip", "web", "--tcp=80:8080") == "service/web created\n"
        assert kubectl.json("get", "service", "web")["spec"]["ports"][0]["targetPort"] == 8080
        created = kubectl("create", "ingress", "web", "--rule=example.com/=web:80")
        assert created == "ingress.networking.k8s.io/web created\n"
        assert kubectl("get", "ingress", "web", "-o=jsonpath={.spec.rules[0].host}") == "example.com"

    def test_run_makes_a_pod(self, kubectl: Kubectl) -> None:
        assert kubectl("run", "one", "--image=app:1", "--restart=Never") == "pod/one created\n"
        pod = kubectl.json("get", "pod", "one")
        assert (pod["spec"]["restartPolicy"], pod["status"]["phase"]) == ("Never", "Pending")
        assert pod["metadata"]["labels"] == {"run": "one"}

    def test_what_exists_already_is_refused(self, kubectl: Kubectl) -> None:
        kubectl("create", "configmap", "c")
        refused = kubectl.run("create", "configmap", "c")
        assert refused.code == 1
        assert refused.err.rstrip().endswith('configmaps "c" already exists')


class TestCreatingFromAFile:
    def test_a_generated_name_is_returned(self, kubectl: Kubectl) -> None:
        obj = manifests.config_map("")
        obj["metadata"] = {"generateName": "made-"}
        name = kubectl("create", "--filename=-", "--output=name", stdin=documents(obj)).strip()
        assert name.startswith("configmap/made-")
        assert len(name) == len("configmap/made-") + 5
        assert kubectl("get", name, "-o=name").strip() == name

    def test_an_unknown_field_is_refused_by_its_path(self, kubectl: Kubectl) -> None:
        pod = manifests.pod("p")
        pod["spec"]["containers"][0]["imagee"] = "typo"
        refused = kubectl.run("create", "--filename=-", stdin=documents(pod))
        assert refused.code == 1
        assert 'unknown field "spec.containers[0].imagee"' in refused.err
        assert kubectl.run("get", "pod", "p").code == 1

    def test_an_unknown_field_is_only_warned_of_when_asked_so(self, kubectl: Kubectl) -> None:
        pod = manifests.pod("p")
        pod["spec"]["containers"][0]["imagee"] = "typo"
        done = kubectl.run("create", "--validate=warn", "--filename=-", stdin=documents(pod))
        assert (done.code, done.out) == (0, "pod/p created\n")
        assert 'Warning: unknown field "spec.containers[0].imagee"' in done.err

    def test_an_invalid_object_is_refused_with_every_cause(self, kubectl: Kubectl) -> None:
        pod = manifests.pod("p", restartPolicy="Sometimes")
        pod["spec"]["containers"][0]["name"] = "Not A Name"
        refused = kubectl.run("create", "--filename=-", stdin=documents(pod))
        assert refused.code == 1
        assert 'The Pod "p" is invalid' in refused.err
        assert "spec.containers[0].name: Invalid value" in refused.err
        assert "spec.restartPolicy: Unsupported value" in refused.err

    def test_several_documents_are_created_in_their_order(self, kubectl: Kubectl) -> None:
        stream = documents(manifests.config_map("a"), manifests.job("b"), manifests.deployment("c"))
        printed = kubectl("create", "--filename=-", stdin=stream)
        assert printed.splitlines() == ["configmap/a created", "job.batch/b created", "deployment.apps/c created"]

    def test_dry_run_on_the_server_shows_defaults_and_stores_nothing(self, kubectl: Kubectl) -> None:
        printed = kubectl(
            "create", "--dry-run=server", "--output=json", "--filename=-", stdin=documents(manifests.deployment("d"))
        )
        assert json.loads(printed)["spec"]["progressDeadlineSeconds"] == 600
        assert 'deployments.apps "d" not found' in kubectl.run("get", "deployment", "d").err


class TestApply:
    def test_created_then_unchanged_then_configured(self, kubectl: Kubectl) -> None:
        assert kubectl.apply(manifests.deployment("web")) == "deployment.apps/web created\n"
        assert kubectl.apply(manifests.deployment("web")) == "deployment.apps/web unchanged\n"
        assert kubectl.apply(manifests.deployment("web", image="app:2")) == "deployment.apps/web configured\n"
        assert kubectl.json("get", "deployment", "web")["metadata"]["generation"] == 2

    def test_containers_are_merged_by_their_name(self, kubectl: Kubectl) -> None:
        web = manifests.deployment("web")
        containers = web["spec"]["template"]["spec"]["containers"]
        containers.append({"name": "side", "image": "side:1"})
        kubectl.apply(web)
        containers.pop(0)
        kubectl.apply(web)
        names = kubectl("get", "deployment", "web", "-o=jsonpath={.spec.template.spec.containers[*].name}")
        assert names == "side"

    def test_what_others_set_stays_and_what_is_left_out_goes(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c", a="1", b="2"))
        kubectl("patch", "configmap", "c", '--patch={"data":{"theirs":"3"}}')
        kubectl.apply(manifests.config_map("c", a="1"))
        assert kubectl.json("get", "configmap", "c")["data"] == {"a": "1", "theirs": "3"}

    def test_prune_deletes_what_is_no_longer_in_the_files(self, kubectl: Kubectl) -> None:
        labels = {"set": kubectl.namespace}
        kubectl.apply(manifests.config_map("a", labels=labels), manifests.config_map("b", labels=labels))
        pruning = ("--prune", f"--selector=set={kubectl.namespace}", "--prune-allowlist=core/v1/ConfigMap")
        printed = kubectl.apply(manifests.config_map("a", labels=labels), arguments=pruning)
        assert printed.splitlines() == ["configmap/a unchanged", "configmap/b pruned"]

    def test_dry_run_on_the_server_changes_nothing(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c", a="1"))
        printed = kubectl.apply(manifests.config_map("c", a="2"), arguments=("--dry-run=server",))
        assert printed == "configmap/c configured (server dry run)\n"
        assert kubectl.json("get", "configmap", "c")["data"] == {"a": "1"}


class TestServerSideApply:
    def test_an_object_is_created_and_its_fields_are_owned(self, kubectl: Kubectl) -> None:
        printed = kubectl.apply(manifests.deployment("web"), arguments=("--server-side",))
        assert printed == "deployment.apps/web serverside-applied\n"
        shown = kubectl.json("get", "deployment", "web", "--show-managed-fields")
        entry = shown["metadata"]["managedFields"][0]
        assert (entry["manager"], entry["operation"]) == ("kubectl", "Apply")
        assert "f:replicas" in entry["fieldsV1"]["f:spec"]

    def test_a_field_of_another_manager_conflicts_unless_forced(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c", a="1"), arguments=("--server-side", "--field-manager=first"))
        second = ("apply", "--server-side", "--field-manager=second", "--filename=-")
        refused = kubectl.run(*second, stdin=documents(manifests.config_map("c", a="2")))
        assert refused.code == 1
        assert 'conflict with "first": .data.a' in refused.err
        kubectl(*second, "--force-conflicts", stdin=documents(manifests.config_map("c", a="2")))
        assert kubectl.json("get", "configmap", "c")["data"] == {"a": "2"}

    def test_a_field_left_out_is_removed(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c", a="1", b="2"), arguments=("--server-side",))
        kubectl.apply(manifests.config_map("c", b="2"), arguments=("--server-side",))
        assert kubectl.json("get", "configmap", "c")["data"] == {"b": "2"}

    def test_an_object_applied_by_the_client_can_be_taken_over(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.config_map("c", a="1", b="2"))
        kubectl.apply(manifests.config_map("c", a="3"), arguments=("--server-side",))
        assert kubectl.json("get", "configmap", "c")["data"] == {"a": "3"}


class TestDiffAndReplace:
    def test_diff_shows_what_apply_would_change_and_nothing_else(self, kubectl: Kubectl) -> None:
        kubectl.apply(manifests.deployment("web"))
        assert kubectl.run("diff", "--filename=-", stdin=documents(manifests.deployment("web"))).code == 0
        changed = kubectl.run("diff", "--filename=-", stdin=documents(manifests.deployment("web", image="app:2")))
        assert changed.code == 1, changed.err
        lines = [
            line.strip() for line in changed.out.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}
        ]
        assert [line for line in lines if "generation" not in line] == [
            "-      - image: app:1",
            "+      - image: app:2",
        ]

    def test_replace_puts_the_whole_object(self, kubectl: Kubectl) -> None:
        kubectl("create", "--filename=-", stdin=documents(manifests.config_map("c", a="1", b="2")))
        printed = kubectl("replace", "--filename=-", stdin=documents(manifests.config_map("c", b="3")))
        assert printed == "configmap/c replaced\n"
        assert kubectl.json("get", "configmap", "c")["data"] == {"b": "3"}

    def test_replace_of_an_old_version_conflicts(self, kubectl: Kubectl) -> None:
        kubectl("create", "--filename=-", stdin=documents(manifests.config_map("c", a="1")))
        old = kubectl.json("get", "configmap", "c")
        kubectl("patch", "configmap", "c", '--patch={"data":{"a":"2"}}')
        refused = kubectl.run("replace", "--filename=-", stdin=documents(old))
        assert refused.code == 1
        assert 'Error from server (Conflict): error when replacing "STDIN"' in refused.err
        assert "the object has been modified" in refused.err

    def test_replace_of_something_new_says_that_it_is_not_there(self, kubectl: Kubectl) -> None:
        refused = kubectl.run("replace", "--filename=-", stdin=documents(manifests.config_map("c")))
        assert 'Error from server (NotFound): error when replacing "STDIN": configmaps "c" not found' in refused.err

    def test_replace_by_force_makes_a_new_object(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl("create", "--filename=-", stdin=documents(manifests.config_map("c", a="1")))
        first = kubectl.json("get", "configmap", "c")["metadata"]["uid"]
        kubectl("replace", "--force", "--filename=-", stdin=documents(manifests.config_map("c", a="2")))
        again = kubectl.json("get", "configmap", "c")
        assert (again["data"], again["metadata"]["uid"] != first) == ({"a": "2"}, True)
