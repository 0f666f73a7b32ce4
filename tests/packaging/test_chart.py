"""The chart: what it renders, what it refuses, and that its words are those of the product."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import click
import pytest
import yaml
from tests.packaging import charts
from tests.packaging.charts import CHART, EVERYTHING, NAMESPACE, Document, HelmError, chosen, render

import rota
from rota.cli.main import root
from rota.controllers.batch import rights as batch_rights
from rota.controllers.batch import webhooks
from rota.controllers.batch.beside import Settings
from rota.scheduler import rights as scheduler_rights
from rota.scheduler.batch import conf, registry
from rota.scheduler.plugin_registry import builtin, third_party
from rota.spot import node_readings, node_signals

pytestmark = [pytest.mark.slow, pytest.mark.helm]

SPOT, LABEL = node_signals.Means.SPOT, node_signals.Place.LABEL
IPV6 = {"listenHost": "[::]"}
CASES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "everything": EVERYTHING,
    "one of each": {part: {"enabled": True, "replicas": 1} for part in ("scheduler", "spotController", "extender")},
    "agents on their machines' network": {"spotAgent": {"enabled": True, "hostNetwork": True, "provider": "aws"}},
    "batch without webhooks": {"batchController": {"enabled": True, "replicas": 1, "webhooks": {"enabled": False}}},
    "own certificate": {"extender": {"enabled": True, "tls": {"secret": "mine"}}, **IPV6},
    "nothing": {part: {"enabled": False} for part in ("scheduler", "spotController", "extender")},
}


def pods(documents: list[Document]) -> Iterator[tuple[str, Document]]:
    for one in documents:
        if one["kind"] in {"Deployment", "DaemonSet"}:
            yield one["metadata"]["labels"]["app.kubernetes.io/component"], one["spec"]["template"]


def test_helm_finds_no_fault_with_it() -> None:
    assert "0 chart(s) failed" in charts.helm("lint", "--strict", str(CHART))


def test_its_version_is_the_products() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == rota.__version__
    file = (charts.PACKAGING / "Containerfile").read_text()
    assert f'image.version="{rota.__version__}"' in file
    assert f"--tag rota:{rota.__version__} " in file


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_pods_may_do_as_little_as_possible(values: Mapping[str, Any]) -> None:
    for component, template in pods(render(values)):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert {"livenessProbe", "readinessProbe"} <= container.keys()
        assert spec["serviceAccountName"] == f"rota-{component}"
        assert all(mount["readOnly"] for mount in container.get("volumeMounts", ()))


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_commands_know_the_options_that_they_are_given(values: Mapping[str, Any]) -> None:
    for component, template in pods(render(values)):
        words = template["spec"]["containers"][0]["args"]
        arguments = [word for word in words if word.startswith("--")]
        command: click.Command = root
        for verb in words[: len(words) - len(arguments)]:
            assert isinstance(command, click.Group), component
            found = command.get_command(click.Context(command), verb)
            assert found is not None, component
            command = found
        known = {name for parameter in command.params for name in parameter.opts}
        assert {argument.partition("=")[0] for argument in arguments} <= known
        address = next(one for one in arguments if one.startswith("--http=")).partition("=")[2]
        assert command.params[[one.name for one in command.params].index("http")].type(address)[1] == 9464


def test_each_component_has_an_account_and_releases_share_nothing() -> None:
    ours, others = render(EVERYTHING), render(EVERYTHING, release="second")
    named = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in ours]
    assert len(set(named)) == len(named)
    rest = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in others}
    assert rest.isdisjoint(named)
    for one in ours:
        # events about nodes are in `default`, and so is the right to read them
        of_cluster = one["kind"].startswith(("Cluster", "Mutating", "Validating"))
        allowed = {None} if of_cluster else {NAMESPACE, "default"}
        assert one["metadata"].get("namespace") in allowed
        assert one["metadata"]["labels"]["app.kubernetes.io/instance"] == charts.RELEASE


def test_services_and_policies_select_the_pods_that_they_mean() -> None:
    documents = render(EVERYTHING)
    templates = dict(pods(documents))

    def selected(labels: Mapping[str, str]) -> set[str]:
        return {name for name, one in templates.items() if labels.items() <= one["metadata"]["labels"].items()}

    assert selected(chosen(documents, "Service", "rota-extender")["spec"]["selector"]) == {"extender"}
    assert selected(chosen(documents, "Service", "rota-metrics")["spec"]["selector"]) == set(templates)
    metrics = chosen(documents, "NetworkPolicy", "rota-metrics")["spec"]
    assert selected(metrics["podSelector"]["matchLabels"]) == set(templates)
    for one in documents:
        if one["kind"] == "PodDisruptionBudget":
            component = one["metadata"]["labels"]["app.kubernetes.io/component"]
            assert selected(one["spec"]["selector"]["matchLabels"]) == {component}


def test_pods_on_their_machines_network_are_asked_from_there_only() -> None:
    ((_, template),) = [one for one in pods(render(CASES["agents on their machines' network"])) if "agent" in one[0]]
    assert template["spec"]["hostNetwork"]
    (container,) = template["spec"]["containers"]
    assert "--http=127.0.0.1:9464" in container["args"]
    assert {container[probe]["httpGet"]["host"] for probe in ("livenessProbe", "readinessProbe")} == {"127.0.0.1"}


def test_a_webhook_wants_a_secret() -> None:
    with pytest.raises(HelmError, match=r"webhook\.secret: name the Secret with token"):
        render({"spotController": {"webhook": {"enabled": True}}})


def test_webhooks_with_a_certificate_of_ones_own_want_its_authority() -> None:
    with pytest.raises(HelmError, match=r"webhooks\.caBundle: give the CA"):
        render({"batchController": {"enabled": True, "webhooks": {"secret": "mine"}}})


def test_the_batch_controller_and_the_batch_scheduler_may_do_what_they_need() -> None:
    """The rights are those that the commands check at their start, no more and no less."""
    documents = render(EVERYTHING)
    hooks = Settings(lease_namespace=NAMESPACE, webhooks=("0.0.0.0", 8443))
    needed = batch_rights.needed(hooks)
    assert granted(documents, "batch-controller") == {
        (one.verb, one.group, one.resource, one.namespace, one.name) for one in needed
    }
    more = granted(documents, "scheduler") - granted(render(), "scheduler")
    lease = NAMESPACE, "rota-scheduler"
    alone = set(scheduler_rights.needed(lease))
    assert more == {
        (one.verb, one.group, one.resource, one.namespace, one.name)
        for one in scheduler_rights.needed(lease, batch=True)
        if one not in alone
    }


def granted(documents: list[Document], component: str) -> set[tuple[str, str, str, str, str]]:
    return {
        (verb, group, resource, one["metadata"].get("namespace", ""), name)
        for one in documents
        if one["kind"] in ("ClusterRole", "Role")
        and one["metadata"]["labels"]["app.kubernetes.io/component"] == component
        for rule in one["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
    }


def test_webhooks_are_asked_about_what_they_have_rules_for() -> None:
    """The chart registers what `rota batch-controller --webhook-url` would register, under the Service."""
    documents = render(EVERYTHING)
    authority = base64.b64decode(chosen(documents, "Secret", "rota-batch-controller-tls")["data"]["ca.crt"])
    for _, own in webhooks.configurations("https://unused", authority):
        (wanted,) = own["webhooks"]
        (rendered,) = chosen(documents, own["kind"])["webhooks"]
        client = rendered.pop("clientConfig")
        path = wanted.pop("clientConfig")["url"].rpartition("/")[2]
        by_kind = partial(sorted, key=lambda rule: (rule["apiGroups"], rule["resources"]))
        assert {**rendered, "rules": by_kind(rendered["rules"])} == {**wanted, "rules": by_kind(wanted["rules"])}
        service = {"name": "rota-batch-controller", "namespace": NAMESPACE, "path": f"/{path}", "port": 443}
        assert client["service"] == service
        assert base64.b64decode(client["caBundle"]) == authority


def test_the_batch_configuration_is_one_that_the_scheduler_takes() -> None:
    text = chosen(render(EVERYTHING), "ConfigMap", "rota-scheduler")["data"]["volcano-scheduler.conf"]
    assert conf.parse(text, registry.KNOWN) == conf.parse(conf.DEFAULT, registry.KNOWN)


def test_one_pod_alone_has_no_budget_that_would_keep_its_machine() -> None:
    kinds = [one["kind"] for one in render(CASES["one of each"])]
    assert kinds.count("Deployment") == 3
    assert "PodDisruptionBudget" not in kinds


def test_with_nothing_enabled_nothing_is_there() -> None:
    assert render(CASES["nothing"]) == []


def test_pods_had_better_not_be_on_any_machine_that_is_known_as_spot() -> None:
    templates = dict(pods(render(EVERYTHING)))
    known = {one.key: one.values for one in node_signals.BUILTIN if (one.means, one.place) == (SPOT, LABEL)}
    affinity = templates["scheduler"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert {one["key"]: tuple(one.get("values", ())) for one in term["preference"]["matchExpressions"]} == known
    assert {one["operator"] for one in term["preference"]["matchExpressions"]} == {"NotIn", "DoesNotExist"}
    # and agents are on all of those, and on those that the user knows
    affinity = templates["spot-agent"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    expressions = [one["matchExpressions"] for one in terms]
    assert {one["key"]: tuple(one.get("values", ())) for (one,) in expressions} == {
        **known,
        "example.com/market": ("spot",),
    }
    assert {one["operator"] for (one,) in expressions} == {"In", "Exists"}


def test_settings_are_a_configuration_that_the_scheduler_takes() -> None:
    given = {"parallelism": 4, "leaderElection": {"leaseDuration": "30s", "resourceName": "elsewhere"}}
    documents = render({"scheduler": {"schedulerName": "packing", "settings": given}})
    text = chosen(documents, "ConfigMap", "rota-scheduler")["data"]["settings.yaml"]
    loaded = third_party.load(text.encode(), builtin.registry()).configuration
    assert list(loaded.profiles) == ["packing"]
    assert loaded.settings.parallelism == 4
    # its role allows this Lease and no other
    assert loaded.settings.leader_election.resource_name == "rota-scheduler"
    assert loaded.settings.leader_election.resource_namespace == NAMESPACE
    role = chosen(documents, "Role", "rota-scheduler")
    assert role["rules"][1]["resourceNames"] == ["rota-scheduler"]


def test_custom_profiles_replace_the_default_ones() -> None:
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b"}]
    text = chosen(render({"scheduler": {"settings": {"profiles": profiles}}}), "ConfigMap")["data"]["settings.yaml"]
    assert list(third_party.load(text.encode(), builtin.registry()).configuration.profiles) == ["a", "b"]


def test_a_change_of_what_pods_read_starts_them_anew() -> None:
    def read(values: Mapping[str, Any]) -> dict[str, str]:
        return {name: one["metadata"]["annotations"]["rota.dev/reads"] for name, one in pods(render(values))}

    extender = {"extender": {"enabled": True}}
    before, same = read(extender), read({**extender, "podLabels": {"a": "b"}})
    assert before == same
    after = read({**extender, "marks": EVERYTHING["marks"], "scheduler": {"schedulerName": "other"}})
    assert {name for name in before if before[name] != after[name]} == set(before)


def test_marks_are_a_file_that_the_product_reads(tmp_path: Any) -> None:
    file = tmp_path / "marks.yaml"
    file.write_text(chosen(render(EVERYTHING), "ConfigMap", "rota-marks")["data"]["marks.yaml"])
    node = {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "example.com/reclaim", "effect": "NoSchedule"}]}}
    notice = node_readings.read(node, node_signals.read(file), now=0.0).notice
    assert notice is not None
    assert notice.provider == "example"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"scheduler": {"replicas": 0}}, "/scheduler/replicas"),
        ({"scheduler": {"schedulerName": ""}}, "/scheduler/schedulerName"),
        ({"spotcontroller": {"enabled": True}}, "spotcontroller"),
        ({"spotAgent": {"provider": "oci"}}, "/spotAgent/provider"),
        ({"spotController": {"returnAfter": "soon"}}, "/spotController/returnAfter"),
        ({"extender": {"kubeScheduler": {"urlPrefix": "http://plain"}}}, "/extender/kubeScheduler/urlPrefix"),
        ({"extender": {"kubeScheduler": {"weight": 0}}}, "/extender/kubeScheduler/weight"),
        ({"batchController": {"schedulerNames": []}}, "/batchController/schedulerNames"),
        ({"batchController": {"webhooks": {"url": "http://plain"}}}, "/batchController/webhooks/url"),
        ({"scheduler": {"batch": {"config": ""}}}, "/scheduler/batch/config"),
        ({"image": {"digest": "sha256:short"}}, "/image/digest"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"marks": [{"means": "spott", "place": "label", "key": "a"}]}, "/marks/0/means"),
        ({"marks": [{"means": "spot", "key": "a"}]}, "/marks/0"),
        ({"listenHost": "127.0.0.1"}, "/listenHost"),
        ({"fullnameOverride": "Not a Name"}, "/fullnameOverride"),
    ],
)
def test_nonsense_is_refused_with_its_place(values: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        render(values)


def test_the_schema_knows_every_value_and_what_marks_can_mean() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["properties"].keys() - values.keys() == {"global"}
    mark = schema["properties"]["marks"]["items"]["properties"]
    assert mark.keys() == set(node_signals.NodeSignal.__struct_fields__)
    assert set(mark["means"]["enum"]) == {one.value for one in node_signals.Means}
    assert set(mark["place"]["enum"]) == {one.value for one in node_signals.Place}
