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
        ("actions: allocate\nmetrics: {type: prometheus}", "metrics"),
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


@pytest.mark.parametrize("name", sorted(conf.NOT_KEPT))
def test_plugins_that_are_not_kept_are_refused_with_a_reason(name: str) -> None:
    (fault,) = faults(f"actions: allocate\ntiers: [{{plugins: [{{name: {name}}}]}}]")
    assert fault == f"tiers[0].plugins[0].name: {conf.NOT_KEPT[name]}"


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
