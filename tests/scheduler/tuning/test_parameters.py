"""Parameters of a configuration: what they are, and a configuration with other values."""

from typing import ClassVar

import msgspec
import pytest

from rota.scheduler.config import encoder, resolution
from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.framework.objectives import Objective
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.registry import Handle
from rota.scheduler.plugin_registry import third_party
from rota.scheduler.plugin_registry.third_party import Loaded
from rota.scheduler.tuning import parameters, tuning_follower
from rota.scheduler.tuning.parameters import NotTunableError, Parameter
from rota.testing.schedulers import configured

COMBINED = """
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: UtilizationObjective}, {name: BalanceObjective}, {name: ObjectiveCombiner}]
  pluginConfig:
  - name: ObjectiveCombiner
    args:
      method: WeightedSum
      objectives: [{plugin: UtilizationObjective, weight: 2}, {plugin: BalanceObjective}]
"""
FIT = Parameter("NodeResourcesFit")
BALANCE = Parameter("ObjectiveCombiner", "objectives.BalanceObjective.weight")
NAME = "default-scheduler"


def value(loaded: Loaded, parameter: Parameter) -> float:
    return parameters.value_of(parameters.profile_of(loaded, NAME), parameter)


def scoring(loaded: Loaded) -> list[str]:
    return [each.name for each in loaded.configuration.first.points[ExtensionPoint.SCORE]]


def test_the_weight_of_a_default_plugin_changes_and_the_order_of_plugins_does_not() -> None:
    base = configured()
    changed = parameters.tuned(base, NAME, {FIT: 7})
    assert (value(base, FIT), value(changed, FIT)) == (1, 7)
    assert scoring(changed) == scoring(base)
    others = [Parameter(name) for name in scoring(base) if name != FIT.plugin]
    assert [value(changed, each) for each in others] == [value(base, each) for each in others]


@pytest.mark.parametrize("section", ["score", "multiPoint"])
def test_a_weight_that_the_file_gives_is_changed_where_it_is(section: str) -> None:
    rest = f"""
profiles:
- schedulerName: {NAME}
  plugins:
    {section}:
      enabled: [{{name: NodeResourcesFit, weight: 4}}]
"""
    base = configured(rest)
    changed = parameters.tuned(base, NAME, {FIT: 2})
    assert (value(base, FIT), value(changed, FIT)) == (4, 2)
    assert scoring(changed) == scoring(base)


def test_the_weight_of_an_objective_changes_also_if_it_was_the_default() -> None:
    changed = parameters.tuned(configured(COMBINED), NAME, {BALANCE: 0.5})
    assert value(changed, BALANCE) == 0.5
    assert value(changed, Parameter("ObjectiveCombiner", "objectives.UtilizationObjective.weight")) == 2


def test_an_argument_that_the_file_does_not_give_is_written_out() -> None:
    scored = """
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: TargetLoadPacking}]}}
"""
    target = Parameter("TargetLoadPacking", "targetUtilization")
    changed = parameters.tuned(configured(scored), NAME, {target: 55})
    assert value(changed, target) == 55


def test_the_document_of_a_tuned_configuration_means_the_same() -> None:
    base = configured(COMBINED)
    changed = parameters.tuned(base, NAME, {FIT: 3, BALANCE: 4.5})
    again = third_party.load_settings(
        resolution.read(encoder.to_document(changed.configuration.settings)), base.registry
    )
    assert again.configuration.profiles == changed.configuration.profiles


@pytest.mark.parametrize(
    ("parameter", "to", "why"),
    [
        (Parameter("Nothing"), 2, "does not score by Nothing"),
        (Parameter("NodeName"), 2, "does not score by NodeName"),
        (FIT, 1.5, "whole number"),
        (FIT, 0, "from 1 to 1000"),
        (Parameter("ObjectiveCombiner", "objectives.PowerObjective.weight"), 2, "there is no PowerObjective"),
        (Parameter("ObjectiveCombiner", "method"), 2, "is not a number"),
        (Parameter("LoadAware", "x"), 2, "does not run LoadAware"),
    ],
)
def test_what_a_profile_does_not_have_cannot_be_tuned(parameter: Parameter, to: float, why: str) -> None:
    with pytest.raises(NotTunableError, match=why):
        parameters.tuned(configured(COMBINED), NAME, {parameter: to})


def test_a_value_that_the_plugin_refuses_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be positive"):
        parameters.tuned(configured(COMBINED), NAME, {BALANCE: 0})


class PickyArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    share: float = 0.6


class Picky(Objective):
    """A plugin of a user, whose constructor checks its arguments."""

    Args = PickyArgs
    name: ClassVar[str] = "Picky"
    unit: ClassVar[str] = "share"

    def __init__(self, args: PickyArgs, handle: Handle) -> None:
        if args.share >= 1:
            raise ValueError("share must be below 1")


PICKY = f"""
profiles:
- schedulerName: {NAME}
  plugins: {{multiPoint: {{enabled: [{{name: Picky}}]}}}}
"""


def test_a_value_that_a_constructor_refuses_is_refused_and_harms_no_other_proposal() -> None:
    base, share = configured(PICKY, Picky), Parameter("Picky", "share")
    assert value(parameters.tuned(base, NAME, {share: 0.9}), share) == 0.9
    with pytest.raises(NotTunableError, match="cannot be built with it: ValueError: share must be below 1"):
        parameters.tuned(base, NAME, {share: 1.2})
    known = [
        {
            "metadata": {"name": f"p{number}"},
            "spec": {},
            "status": {"phase": "Kept", "startTime": str(number), "values": [{**one, "argument": argument}]},
        }
        for number, (one, argument) in enumerate(
            [({"plugin": "Picky", "value": 1.2}, "share"), ({"plugin": FIT.plugin, "value": 5}, "")]
        )
    ]
    skipped: list[str] = []
    made = tuning_follower.overlaid(base, known, lambda one, _: skipped.append(one["metadata"]["name"]))
    assert (value(made, share), value(made, FIT), skipped) == (0.6, 5, ["p0"])


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(NotTunableError, match=f'no profile "other"; the configuration has {NAME}'):
        parameters.tuned(configured(), "other", {FIT: 2})


def test_the_weights_of_a_profile_are_those_that_decide() -> None:
    assert FIT in set(parameters.weights(configured().configuration.first))
    assert set(parameters.weights(configured(COMBINED).configuration.first)) == {
        BALANCE,
        Parameter("ObjectiveCombiner", "objectives.UtilizationObjective.weight"),
    }
