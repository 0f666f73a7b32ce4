"""volcano-scheduler.conf: what is written is what happens, and everything else is refused by its path."""

import textwrap

import pytest

from rota.scheduler.batch import conf
from rota.scheduler.batch.registry import KNOWN
from rota.scheduler.config.faults import ConfigurationError


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        conf.parse(textwrap.dedent(text), KNOWN)
    return [str(fault) for fault in raised.value.faults]


def test_the_default_is_the_one_that_volcano_ships() -> None:
    read = conf.parse(conf.DEFAULT, KNOWN)
    assert read.actions == ("enqueue", "allocate", "backfill")
    assert [[option.plugin.name for option in tier] for tier in read.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('actions: "allocate, dance"', "actions[1]"),
        ("actions: []", "actions"),
        ("- actions", ""),
        ("actions: allocate\nmetrics: {type: elasticsearch}", "metrics.type"),
        ("actions: allocate\nmetrics: {interval: never}", "metrics.interval"),
        ("actions: allocate\nmetrics: {address: x}", "metrics.address"),
        ("actions: allocate\nspeed: 3", "speed"),
        ("actions: allocate\ntiers: {}", "tiers"),
        ("actions: allocate\ntiers: [{plugins: [{name: gang}], weight: 2}]", "tiers[0].weight"),
        ("actions: allocate\ntiers: [{plugins: [gang]}]", "tiers[0].plugins[0]"),
        ("actions: allocate\ntiers: [{plugins: [{name: gong}]}]", "tiers[0].plugins[0].name"),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang}]}, {plugins: [{name: gang}]}]",
            "tiers[1].plugins[0].name",
        ),
        ("actions: allocate\ntiers: [{plugins: [{name: gang, enableMagic: true}]}]", "tiers[0].plugins[0].enableMagic"),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOrder: often}]}]",
            "tiers[0].plugins[0].enableJobOrder",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.wait: 1}}]}]",
            "tiers[0].plugins[0].arguments.binpack.wait",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: binpack, arguments: {binpack.weight: much}}]}]",
            "tiers[0].plugins[0].arguments.binpack.weight",
        ),
        ("actions: allocate\nconfigurations: [{name: dance}]", "configurations[0].name"),
        (
            "actions: allocate\nconfigurations: [{name: preempt, arguments: {soon: true}}]",
            "configurations[0].arguments.soon",
        ),
    ],
)
def test_what_is_not_known_is_refused_by_its_path(text: str, path: str) -> None:
    (fault,) = faults(text)
    assert fault.startswith(f"{path}: " if path else "expected an object")


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        (
            "{name: usage, arguments: {thresholds: {gpu: 3}}}",
            'arguments.thresholds: expected percentages of cpu and mem, found "gpu"',
        ),
        (
            "{name: usage, arguments: {thresholds: {cpu: 101}}}",
            "arguments.thresholds: expected percentages above 0 and up to 100",
        ),
        (
            "{name: rescheduling, arguments: {metricsPeriod: 5m}}",
            "arguments.metricsPeriod: is no argument here; known are",
        ),
        (
            "{name: rescheduling, arguments: {strategies: [{name: dance}]}}",
            'arguments.strategies: [0].name: there is no strategy "dance"; known is lowNodeUtilization',
        ),
        (
            "{name: rescheduling, arguments: {strategies: [{name: lowNodeUtilization, "
            "params: {thresholds: {cpu: 90}}}]}}",
            "arguments.strategies: [0].params.thresholds.cpu: must not be above the target",
        ),
        ("{name: extender}", "arguments.extender.urlPrefix: is required"),
        (
            "{name: extender, arguments: {extender.urlPrefix: here}}",
            "arguments.extender.urlPrefix: expected an address",
        ),
        (
            "{name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}",
            "arguments.deviceshare.VGPUEnable: vGPUs are not supported; ask for rota.dev/gpu-milli",
        ),
        (
            "{name: deviceshare, arguments: {deviceshare.SchedulePolicy: any}}",
            "arguments.deviceshare.SchedulePolicy: expected",
        ),
        ("{name: numa-aware, arguments: {weight: much}}", "arguments.weight: expected a whole number"),
    ],
)
def test_arguments_that_cannot_be_honoured_are_refused_with_a_remedy(plugin: str, fault: str) -> None:
    (found,) = faults(f"actions: allocate\ntiers: [{{plugins: [{plugin}]}}]")
    assert found.startswith(f"tiers[0].plugins[0].{fault}")


def test_numaaware_is_another_name_of_numa_aware() -> None:
    read = conf.parse("actions: allocate\ntiers: [{plugins: [{name: numaaware}]}]", KNOWN)
    assert read.uses("numa-aware")


def test_measured_usage_is_read_as_often_as_the_file_says() -> None:
    read = conf.parse("actions: allocate\nmetrics: {type: metrics_server, interval: 10s}", KNOWN)
    assert read.metrics == conf.MetricsSource(10.0)
    text = "actions: allocate\nmetrics: {type: prometheus, address: 'http://p:9090', nodeLabel: instance}"
    assert conf.parse(text, KNOWN).metrics == conf.MetricsSource(30.0, "http://p:9090", "instance")


@pytest.mark.parametrize(
    ("metrics", "fault"),
    [
        ("{type: elasticsearch, address: 'http://e'}", "metrics.type: expected metrics_server or prometheus"),
        ("{type: prometheus}", "metrics.address: expected the address"),
        ("{type: prometheus, address: p}", "metrics.address: expected the address"),
        ("{address: 'http://p:9090'}", "metrics.address: the API server serves"),
        ("{type: prometheus, address: 'http://p', nodeLabel: a-b}", "metrics.nodeLabel: expected"),
        ("{interval: soon}", "metrics.interval:"),
        ("{token: x}", "metrics.token: is not a field"),
        ("[]", "metrics: expected an object"),
    ],
)
def test_a_source_of_usage_that_cannot_be_read_is_refused(metrics: str, fault: str) -> None:
    (found,) = faults(f"actions: allocate\nmetrics: {metrics}")
    assert found.startswith(fault)


def test_all_errors_are_reported_at_once() -> None:
    found = faults(
        """
        actions: "allocate, dance"
        tiers:
        - plugins:
          - name: gong
          - name: gang
            enableJobOrder: 3
        """
    )
    assert [fault.split(":")[0] for fault in found] == [
        "actions[1]",
        "tiers[0].plugins[0].name",
        "tiers[0].plugins[1].enableJobOrder",
    ]


def test_switches_and_arguments_reach_the_plugins() -> None:
    read = conf.parse(
        "actions: allocate\n"
        "tiers: [{plugins: [{name: binpack, enableNodeOrder: false, arguments: {binpack.weight: '7'}}]}]",
        KNOWN,
    )
    ((option,),) = read.tiers
    assert option.switches["enableNodeOrder"] is False
    assert option.switches["enablePredicate"] is True
    assert option.arguments["binpack.weight"] == 7
