"""Decisions about scenarios: one scenario of any category in, the decision with the members of `expect` out. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rota.federation.scenarios import checks, claims, estimates, failover, kinds, placement, works

Object: TypeAlias = Mapping[str, Any]

CATEGORIES: Final[Mapping[str, Callable[[Object], dict[str, Any]]]] = {
    "schedule": placement.schedule,
    "trigger": placement.trigger,
    "divide": placement.divide,
    "estimate": estimates.estimate,
    "interpret": kinds.interpret,
    "names": kinds.names,
    "match": claims.match,
    "bind": claims.match,
    "usage": claims.usage,
    "override": works.override,
    "work": works.work,
    "collect": works.collect,
    "evict": failover.evict,
    "validate": checks.validate,
    "hpa": checks.hpa,
    "depend": checks.depend,
}


class ScenarioError(ValueError):
    """A scenario cannot be decided; the message says what is wrong with it."""


def decide(scenario: object) -> dict[str, Any]:
    """The decision about one scenario."""
    if not isinstance(scenario, Mapping):
        raise ScenarioError("a scenario is a JSON object")
    category = scenario.get("category")
    decider = CATEGORIES.get(category) if isinstance(category, str) else None
    if decider is None:
        raise ScenarioError(f"category {category!r} is not known; use one of {', '.join(sorted(CATEGORIES))}")
    try:
        return decider(scenario)
    except KeyError as missing:
        raise ScenarioError(f"{category} needs the member {missing.args[0]!r}") from missing
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
        raise ScenarioError(f"{category} cannot be read: {error}") from error
