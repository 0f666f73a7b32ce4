"""Which plugins run where: the merge with the defaults, multiPoint, the order at a point, weights, refusals."""

from typing import Any

import msgspec
import pytest

from rota.scheduler.config import documents, profiles, specs, stock_defaults
from rota.scheduler.config.args import NodeResourcesFitArgs
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.config.specs import PluginSpec, PluginSpecs
from rota.scheduler.config.wire import KubeSchedulerProfile, PluginRef, PluginSet, WireStruct
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint as Point
from rota.scheduler.framework.registry import NoArgs, ProfileSpec


class TunedArgs(WireStruct, frozen=True):
    factor: int = 2


class PickyArgs(WireStruct, frozen=True):
    pool: str


def spec(name: str, *points: Point, args: type[msgspec.Struct] = NoArgs) -> PluginSpec:
    return PluginSpec(name=name, points=frozenset(points), args=args)


#: A small world: one plugin for everything, and some for scores only.
WORLD: PluginSpecs = {
    plugin.name: plugin
    for plugin in (
        spec("Sort", Point.QUEUE_SORT),
        spec("OtherSort", Point.QUEUE_SORT),
        spec("Binder", Point.BIND),
        spec("Full", Point.FILTER, Point.PRE_SCORE, Point.SCORE),
        spec("Scorer", Point.PRE_SCORE, Point.SCORE),
        spec("Normal", Point.SCORE),
        spec("Extra", Point.SCORE),
        spec("Tuned", Point.FILTER, args=TunedArgs),
        spec("Picky", Point.FILTER, args=PickyArgs),
    )
} | {"my.module:Extra": spec("Extra", Point.SCORE)}

BASICS = (PluginRef(name="Sort"), PluginRef(name="Binder"))


def profile(*defaults: PluginRef | str, config: list[dict[str, Any]] | None = None, **sections: Any) -> ProfileSpec:
    """Resolve a profile over `defaults` (plus what every profile needs); sections are camelCase."""
    wire = documents.convert({"plugins": sections, "pluginConfig": config or []}, KubeSchedulerProfile)
    refs = tuple(ref if isinstance(ref, PluginRef) else PluginRef(name=ref) for ref in defaults)
    return profiles.resolve(wire, WORLD, path="profiles[0]", defaults=(*BASICS, *refs))


def names(*plugins: str | tuple[str, int]) -> list[dict[str, Any]]:
    return [{"name": p} if isinstance(p, str) else {"name": p[0], "weight": p[1]} for p in plugins]


def at(resolved: ProfileSpec, point: Point) -> tuple[str, ...]:
    return tuple(plugin.name for plugin in resolved.points[point])


def weights(resolved: ProfileSpec, point: Point = Point.SCORE) -> dict[str, int]:
    return {plugin.name: plugin.weight for plugin in resolved.points[point]}


def refusal(*defaults: str, config: list[dict[str, Any]] | None = None, **sections: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        profile(*defaults, config=config, **sections)
    return [str(fault) for fault in caught.value.faults]


def test_a_default_plugin_runs_at_every_point_that_it_implements() -> None:
    resolved = profile(PluginRef(name="Full", weight=5))
    assert at(resolved, Point.FILTER) == at(resolved, Point.PRE_SCORE) == ("Full",)
    assert at(resolved, Point.SCORE) == ("Full",)
    assert weights(resolved) == {"Full": 5}
    assert at(resolved, Point.RESERVE) == ()


def test_every_extension_point_is_listed_even_when_empty() -> None:
    assert set(profile().points) == set(Point)


def test_a_plugin_can_be_switched_off_at_one_point() -> None:
    resolved = profile("Full", score={"disabled": names("Full")})
    assert at(resolved, Point.SCORE) == ()
    assert at(resolved, Point.FILTER) == ("Full",)


def test_a_star_at_a_point_leaves_just_what_the_point_enables() -> None:
    resolved = profile("Full", "Scorer", score={"disabled": names("*"), "enabled": names("Normal", "Scorer")})
    assert at(resolved, Point.SCORE) == ("Normal", "Scorer")
    assert at(resolved, Point.PRE_SCORE) == ("Full", "Scorer")


def test_multi_point_appends_to_the_defaults() -> None:
    assert at(profile("Full", multiPoint={"enabled": names("Scorer", "Normal")}), Point.SCORE) == (
        "Full",
        "Scorer",
        "Normal",
    )


def test_a_default_enabled_again_in_multi_point_keeps_its_place_and_takes_the_new_weight() -> None:
    resolved = profile("Full", "Scorer", "Normal", multiPoint={"enabled": names("Extra", ("Scorer", 7))})
    assert at(resolved, Point.SCORE) == ("Full", "Scorer", "Normal", "Extra")
    assert weights(resolved) == {"Full": 1, "Scorer": 7, "Normal": 1, "Extra": 1}


def test_a_default_enabled_again_without_weight_weighs_one() -> None:
    assert weights(profile(PluginRef(name="Full", weight=5), multiPoint={"enabled": names("Full")})) == {"Full": 1}
    assert weights(profile(PluginRef(name="Full", weight=5), score={"enabled": names("Full")})) == {"Full": 1}


def test_a_default_switched_off_and_on_in_multi_point_moves_to_the_end() -> None:
    section = {"disabled": names("Full"), "enabled": names("Full")}
    assert at(profile("Full", "Scorer", multiPoint=section), Point.SCORE) == ("Scorer", "Full")


def test_a_star_in_multi_point_takes_all_defaults_away() -> None:
    section = {"disabled": names("*"), "enabled": names("OtherSort", "Binder", "Normal")}
    resolved = profile("Full", "Scorer", multiPoint=section)
    assert {point: at(resolved, point) for point in Point if at(resolved, point)} == {
        Point.QUEUE_SORT: ("OtherSort",),
        Point.SCORE: ("Normal",),
        Point.BIND: ("Binder",),
    }


@pytest.mark.parametrize(
    ("multi_point", "section", "expected"),
    [
        pytest.param(
            ["Normal", "Full", "Scorer"],
            {"enabled": names("Scorer", "Full")},
            ("Scorer", "Full", "Normal"),
            id="explicit ones that are also multiPoint come first, in the order of the point",
        ),
        pytest.param(
            ["Full", "Scorer"],
            {"enabled": names("Normal", "Scorer", "Full")},
            ("Scorer", "Full", "Normal"),
            id="explicit ones outside multiPoint come last",
        ),
        pytest.param(
            ["Full", "Scorer"],
            {"enabled": names("Scorer", "Extra", "Normal")},
            ("Scorer", "Full", "Extra", "Normal"),
            id="override, then inherited, then the rest in their order",
        ),
        pytest.param(
            ["Full", "Scorer"],
            {"enabled": names("Scorer"), "disabled": names("Scorer")},
            ("Full", "Scorer"),
            id="enabled beats disabled, but no longer counts as an override",
        ),
        pytest.param(
            ["Full", "Scorer"],
            {"disabled": names("Scorer")},
            ("Full",),
            id="disabled alone takes out",
        ),
    ],
)
def test_order_at_a_point(multi_point: list[str], section: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert at(profile(*multi_point, score=section), Point.SCORE) == expected


def test_the_weight_at_the_point_beats_that_of_multi_point() -> None:
    resolved = profile(
        PluginRef(name="Full", weight=2),
        "Scorer",
        score={"enabled": names(("Scorer", 5), ("Full", 3))},
    )
    assert weights(resolved) == {"Scorer": 5, "Full": 3}


def test_merging_keeps_enabled_plugins_that_are_disabled_as_well() -> None:
    section = PluginSet(enabled=(PluginRef(name="A"),), disabled=(PluginRef(name="A"), PluginRef(name="B")))
    merged = profiles.merge((PluginRef(name="A"), PluginRef(name="B"), PluginRef(name="C")), section)
    assert [ref.name for ref in merged] == ["C", "A"]


def test_a_module_path_stands_for_the_plugin_it_names() -> None:
    resolved = profile("Full", score={"enabled": names(("my.module:Extra", 4))})
    assert at(resolved, Point.SCORE) == ("Full", "Extra")
    assert weights(resolved)["Extra"] == 4


def test_arguments_are_typed_and_defaults_filled_in() -> None:
    assert profile("Tuned").args == {"Sort": NoArgs(), "Binder": NoArgs(), "Tuned": TunedArgs(factor=2)}
    assert profile("Tuned", config=[{"name": "Tuned", "args": {"factor": 9}}]).args["Tuned"] == TunedArgs(factor=9)


def test_arguments_of_a_plugin_that_does_not_run_are_checked_and_dropped() -> None:
    assert "Tuned" not in profile(config=[{"name": "Tuned", "args": {"factor": 9}}]).args
    claims = {"name": "DynamicResources", "args": {"filterTimeout": "5s"}}
    assert "DynamicResources" not in profile(config=[claims]).args
    assert (
        "bindingTimeout: must be at least 1s"
        in refusal(config=[{"name": "DynamicResources", "args": {"bindingTimeout": "0s"}}])[0]
    )


def test_a_plugin_that_cannot_do_without_arguments_is_refused_without_them() -> None:
    assert refusal("Picky") == ['profiles[0].pluginConfig: plugin "Picky" must be configured: pool: is required']
    assert profile("Picky", config=[{"name": "Picky", "args": {"pool": "blue"}}]).args["Picky"] == PickyArgs(
        pool="blue"
    )


def test_arguments_may_carry_their_kind() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "TunedArgs"}
    assert profile("Tuned", config=[{"name": "Tuned", "args": {**head, "factor": 3}}]).args["Tuned"] == TunedArgs(
        factor=3
    )


SCORE = "profiles[0].plugins.score"


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (
            {"score": {"enabled": names("Ful")}},
            [f'{SCORE}.enabled[0].name: there is no plugin "Ful"; did you mean Full?'],
        ),
        ({"score": {"disabled": names("Nope")}}, [f'{SCORE}.disabled[0].name: there is no plugin "Nope"']),
        (
            {"score": {"enabled": names("DynamicResources")}},
            [f'{SCORE}.enabled[0].name: "DynamicResources" is a plugin of kube-scheduler that Rota does not have'],
        ),
        (
            {"filter": {"enabled": names("EBSLimits")}},
            ['profiles[0].plugins.filter.enabled[0].name: "EBSLimits" was removed from kube-scheduler; '],
        ),
        (
            {"filter": {"enabled": names("Scorer")}},
            ['profiles[0].plugins.filter.enabled[0].name: plugin "Scorer" does not implement filter'],
        ),
        (
            {"score": {"enabled": names("Extra", "Full", "my.module:Extra")}},
            [f'{SCORE}.enabled[2].name: plugin "Extra" is enabled twice'],
        ),
        (
            {"multiPoint": {"enabled": names("Full", "Full")}},
            ['profiles[0].plugins.multiPoint.enabled[1].name: plugin "Full" is enabled twice'],
        ),
        (
            {"queueSort": {"enabled": names("OtherSort")}},
            ["profiles[0].plugins.queueSort: needs exactly one plugin and has Sort, OtherSort; disable all but one"],
        ),
        (
            {"queueSort": {"disabled": names("*")}},
            ["profiles[0].plugins.queueSort: needs exactly one plugin and has none"],
        ),
        ({"bind": {"disabled": names("Binder")}}, ["profiles[0].plugins.bind: needs at least one plugin"]),
        (
            {"placementScore": {"enabled": names("Full")}},
            [
                'profiles[0].plugins.placementScore.enabled[0].name: plugin "Full" does not implement placementScore; '
                "enable it elsewhere"
            ],
        ),
        (
            {"score": {"enabled": names("Foo")}, "bind": {"enabled": names("Bar")}},
            [
                f'{SCORE}.enabled[0].name: there is no plugin "Foo"',
                'profiles[0].plugins.bind.enabled[0].name: there is no plugin "Bar"',
            ],
        ),
    ],
)
def test_a_refused_section_is_named_with_its_path(sections: dict[str, Any], expected: list[str]) -> None:
    found = refusal(**sections)
    assert len(found) == len(expected)
    for message, beginning in zip(found, expected, strict=True):
        assert message.startswith(beginning)


def test_switching_off_a_stock_plugin_that_rota_lacks_is_fine() -> None:
    assert at(profile("Full", multiPoint={"disabled": names("DynamicResources", "EBSLimits")}), Point.SCORE) == (
        "Full",
    )


ARGS = "profiles[0].pluginConfig[0]"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            [{"name": "Tuned", "args": {"faktor": 1}}],
            f"{ARGS}.args.faktor: unknown field; remove it or correct its spelling (arguments of plugin Tuned)",
        ),
        (
            [{"name": "Tuned", "args": {"factor": "x"}}],
            f"{ARGS}.args.factor: Expected int, got str (arguments of plugin Tuned)",
        ),
        (
            [{"name": "Tuned", "args": {"kind": "OtherArgs"}}],
            f'{ARGS}.args.kind: "OtherArgs" must be "TunedArgs" (arguments of plugin Tuned)',
        ),
        (
            [{"name": "Tuned", "args": {"apiVersion": "v1"}}],
            f'{ARGS}.args.apiVersion: "v1" must be "kubescheduler.config.k8s.io/v1" (arguments of plugin Tuned)',
        ),
        (
            [{"name": "Full", "args": {"a": 1}}],
            f"{ARGS}.args.a: the plugin takes no arguments; remove them (arguments of plugin Full)",
        ),
        (
            [{"name": "Who"}],
            f'{ARGS}.name: there is no plugin "Who"; {specs.REMEDY}',
        ),
        (
            [{"name": "EBSLimits"}],
            f'{ARGS}.name: "EBSLimits" was removed from kube-scheduler; NodeVolumeLimits does its work',
        ),
        (
            [{"name": "Tuned"}, {"name": "Tuned"}],
            'profiles[0].pluginConfig[1]: plugin "Tuned" is configured twice; merge the two entries',
        ),
    ],
)
def test_refused_arguments_name_plugin_and_field(config: list[dict[str, Any]], expected: str) -> None:
    assert refusal("Tuned", config=config) == [expected]


def test_the_stock_list_is_in_the_order_of_kube_scheduler() -> None:
    order = [ref.name for ref in stock_defaults.DEFAULT_PLUGINS]
    assert order[:5] == ["SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration"]
    assert {ref.name: ref.weight for ref in stock_defaults.DEFAULT_PLUGINS if ref.weight} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert order[-1] == "DefaultBinder"


def test_fit_arguments_of_a_profile_reach_it() -> None:
    world = {**WORLD, "NodeResourcesFit": spec("NodeResourcesFit", Point.FILTER, args=NodeResourcesFitArgs)}
    wire = documents.convert(
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/x"]}}]},
        KubeSchedulerProfile,
    )
    resolved = profiles.resolve(wire, world, path="p", defaults=(*BASICS, PluginRef(name="NodeResourcesFit")))
    assert resolved.args["NodeResourcesFit"] == NodeResourcesFitArgs(ignored_resources=("example.com/x",))
