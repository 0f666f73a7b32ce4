"""Whole configurations: defaults, several profiles, extenders, and every refusal with its path."""

from typing import Any

import pytest
import yaml

from rota.scheduler.config import args, resolution, stock_defaults
from rota.scheduler.config.args import NodeResourcesFitArgs
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.config.resolution import Configuration
from rota.scheduler.config.specs import PluginSpec, PluginSpecs
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint as Point
from rota.scheduler.framework.registry import NoArgs

POINTS = {"PrioritySort": Point.QUEUE_SORT, "DefaultBinder": Point.BIND, "SchedulingGates": Point.PRE_ENQUEUE}

#: Every stock plugin by name; which points most of them implement does not matter here.
STOCK: PluginSpecs = {
    ref.name: PluginSpec(
        name=ref.name, points=frozenset({POINTS.get(ref.name, Point.FILTER)}), args=args.UPSTREAM.get(ref.name, NoArgs)
    )
    for ref in stock_defaults.DEFAULT_PLUGINS
} | {"OtherSort": PluginSpec(name="OtherSort", points=frozenset({Point.QUEUE_SORT}))}


def load(**fields: Any) -> Configuration:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return resolution.load(yaml.safe_dump({**head, **fields}), STOCK)


def refusal(**fields: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(**fields)
    return [str(fault) for fault in caught.value.faults]


def test_an_empty_configuration_is_the_stock_one() -> None:
    config = load()
    assert config == resolution.default(STOCK)
    assert list(config.profiles) == ["default-scheduler"]
    assert {plugin.name for enabled in config.first.points.values() for plugin in enabled} == {
        ref.name for ref in stock_defaults.DEFAULT_PLUGINS
    }
    settings = config.settings
    assert settings.parallelism == 16
    assert (settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds) == (1, 10)
    assert settings.percentage_of_nodes_to_score == 0
    assert settings.enable_profiling
    assert settings.enable_contention_profiling
    assert not settings.delay_cache_until_active
    election, client = settings.leader_election, settings.client_connection
    assert election.leader_elect
    spans = (election.lease_duration, election.renew_deadline, election.retry_period)
    assert [span.total_seconds() for span in spans] == [15, 10, 2]
    assert (election.resource_lock, election.resource_name, election.resource_namespace) == (
        "leases",
        "kube-scheduler",
        "kube-system",
    )
    assert (client.qps, client.burst, client.content_type) == (50, 100, "application/vnd.kubernetes.protobuf")


def test_zeros_that_go_cannot_tell_from_absence_get_the_default() -> None:
    settings = load(
        clientConnection={"qps": 0, "burst": 0},
        leaderElection={"leaseDuration": "0s", "resourceName": "", "leaderElect": False},
    ).settings
    assert (settings.client_connection.qps, settings.client_connection.burst) == (50, 100)
    assert settings.leader_election.lease_duration.total_seconds() == 15
    assert settings.leader_election.resource_name == "kube-scheduler"
    assert not settings.leader_election.leader_elect


def test_contention_profiling_follows_profiling() -> None:
    assert load(enableProfiling=False).settings.enable_contention_profiling is False
    assert load(enableContentionProfiling=False).settings.enable_contention_profiling is False


def test_profiles_are_found_by_name_in_the_order_of_the_file() -> None:
    config = load(
        percentageOfNodesToScore=100,
        profiles=[{"schedulerName": "b", "percentageOfNodesToScore": 0}, {"schedulerName": "a"}],
    )
    assert list(config.profiles) == ["b", "a"]
    assert config.first.scheduler_name == "b"


def test_extenders_that_may_fail_are_called_last() -> None:
    config = load(
        extenders=[
            {"urlPrefix": "http://a", "ignorable": True},
            {"urlPrefix": "http://b"},
            {"urlPrefix": "http://c", "ignorable": True, "enableHTTPS": True, "httpTimeout": "100ms"},
            {"urlPrefix": "http://d", "tlsConfig": {"caData": "Zm9v", "insecure": True}},
        ]
    )
    assert [extender.url_prefix[-1] for extender in config.extenders] == ["b", "d", "a", "c"]
    by_name = {extender.url_prefix[-1]: extender for extender in config.extenders}
    assert by_name["c"].enable_https
    assert by_name["c"].http_timeout.total_seconds() == 0.1
    assert by_name["b"].http_timeout.total_seconds() == 5
    tls = by_name["d"].tls_config
    assert tls is not None
    assert tls.ca_data == b"foo"


def test_resources_that_an_extender_takes_over_are_ignored_by_every_profile() -> None:
    config = load(
        profiles=[
            {
                "schedulerName": "a",
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/own"]}}],
            },
            {"schedulerName": "b"},
        ],
        extenders=[
            {
                "urlPrefix": "http://a",
                "managedResources": [
                    {"name": "example.com/gpu", "ignoredByScheduler": True},
                    {"name": "example.com/seen"},
                ],
            }
        ],
    )
    for profile in config.profiles.values():
        fit = profile.args["NodeResourcesFit"]
        assert isinstance(fit, NodeResourcesFitArgs)
        assert fit.ignored_resources == ("example.com/gpu",)


def sorting(name: str, plugin: str) -> dict[str, Any]:
    section = {"disabled": [{"name": "*"}], "enabled": [{"name": plugin}]}
    return {"schedulerName": name, "plugins": {"queueSort": section}}


def test_profiles_may_share_another_queue_sort() -> None:
    config = load(profiles=[sorting("a", "OtherSort"), sorting("b", "OtherSort")])
    assert [plugin.name for plugin in config.first.points[Point.QUEUE_SORT]] == ["OtherSort"]


def extender(**fields: Any) -> dict[str, Any]:
    return {"urlPrefix": "http://x", **fields}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"parallelism": 0}, ["parallelism: 0 must be greater than 0"]),
        ({"parallelism": 2**31}, ["parallelism: Expected int <= 2147483647"]),
        ({"percentageOfNodesToScore": 101}, ["percentageOfNodesToScore: 101 is not in 0..100"]),
        (
            {"profiles": [{"percentageOfNodesToScore": 30}]},
            [
                "profiles[0].percentageOfNodesToScore: 30 is not supported: all nodes are scored in one pass; "
                "remove it, or write 100"
            ],
        ),
        ({"podInitialBackoffSeconds": 0}, ["podInitialBackoffSeconds: 0 must be greater than 0"]),
        (
            {"podInitialBackoffSeconds": 20},
            ["podMaxBackoffSeconds: 10 must not be less than podInitialBackoffSeconds (20)"],
        ),
        ({"clientConnection": {"burst": -1}}, ["clientConnection.burst: -1 must not be negative"]),
        (
            {"leaderElection": {"leaseDuration": "5s"}},
            ["leaderElection.leaseDuration: must be greater than renewDeadline"],
        ),
        ({"leaderElection": {"retryPeriod": "-1s"}}, ["leaderElection.retryPeriod: must be greater than 0"]),
        (
            {"leaderElection": {"resourceLock": "endpoints"}},
            ['leaderElection.resourceLock: "endpoints" must be "leases"'],
        ),
        ({"leaderElection": {"leaderElect": False, "resourceLock": "endpoints"}}, []),
        ({"healthzBindAddress": "0.0.0.0"}, ["healthzBindAddress: unknown field; remove it or correct its spelling"]),
        (
            {"profiles": [{"schedulerName": "a", "plugin": {}}]},
            ["profiles[0].plugin: unknown field; remove it or correct its spelling"],
        ),
        (
            {"profiles": [{"plugins": {"prescore": {}}}]},
            ["profiles[0].plugins.prescore: unknown field; remove it or correct its spelling"],
        ),
        (
            {"profiles": [{"plugins": {"placementFeasible": {}}}]},
            ["profiles[0].plugins.placementFeasible: unknown field; remove it or correct its spelling"],
        ),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"weight": 1}]}}}]},
            ["profiles[0].plugins.score.enabled[0].name: is required"],
        ),
        (
            {"profiles": [{"percentageOfNodesToScore": -1}]},
            ["profiles[0].percentageOfNodesToScore: -1 is not in 0..100"],
        ),
        (
            {"profiles": [{"schedulerName": "a"}, {}]},
            ["profiles[1].schedulerName: is required, and must differ between profiles"],
        ),
        (
            {"profiles": [{"schedulerName": ""}]},
            ["profiles[0].schedulerName: is required, and must differ between profiles"],
        ),
        (
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            ['profiles[1].schedulerName: "a" is the name of profiles[0] already'],
        ),
        (
            {"profiles": [sorting("a", "PrioritySort"), sorting("b", "OtherSort")]},
            [
                "profiles[1].plugins.queueSort: must be the same plugin with the same arguments "
                "as in profiles[0] (PrioritySort)"
            ],
        ),
        ({"extenders": [{}]}, ["extenders[0].urlPrefix: is required"]),
        (
            {"extenders": [extender(prioritizeVerb="p")]},
            ["extenders[0].weight: 0 must be greater than 0, since prioritizeVerb is set"],
        ),
        (
            {"extenders": [extender(bindVerb="b"), extender(bindVerb="b")]},
            ["extenders: only one extender may have a bindVerb"],
        ),
        (
            {"extenders": [extender(managedResources=[{"name": "cpu"}])]},
            [
                'extenders[0].managedResources[0].name: "cpu" is not an extended resource; '
                "those have a domain of their own, as in example.com/gpu"
            ],
        ),
        (
            {
                "extenders": [
                    extender(managedResources=[{"name": "a.b/c"}]),
                    extender(managedResources=[{"name": "a.b/c"}]),
                ]
            },
            ['extenders[1].managedResources[0].name: "a.b/c" is managed by extenders[0] already'],
        ),
        (
            {"parallelism": -1, "percentageOfNodesToScore": -1},
            ["parallelism: -1 must be greater than 0", "percentageOfNodesToScore: -1 is not in 0..100"],
        ),
    ],
)
def test_a_refusal_names_every_field(fields: dict[str, Any], expected: list[str]) -> None:
    if expected:
        assert refusal(**fields) == expected
    else:
        load(**fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a KubeSchedulerConfiguration, got NoneType"),
        ("[]", "expected a KubeSchedulerConfiguration, got list"),
        ("kind: KubeSchedulerConfiguration", "apiVersion: must be a KubeSchedulerConfiguration of kubescheduler"),
        ("{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: KubeSchedulerConfiguration}", "apiVersion: must be"),
        ("{apiVersion: kubescheduler.config.k8s.io/v1, kind: Pod, spec: {}}", "kind: must be"),
    ],
)
def test_a_document_of_another_kind_is_refused_as_such(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolution.load(text, STOCK)
    assert str(caught.value).startswith(expected)
