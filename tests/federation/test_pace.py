"""How fast FederatedHPAs follow their metrics, and what limits them."""

import pytest

from rota.federation.autoscaling import pace


@pytest.mark.parametrize(("current", "replicas", "limit"), [(1, 2, "TooFewReplicas"), (9, 5, "TooManyReplicas")])
def test_replicas_outside_of_the_bounds_say_which_bound_limits_them(current: int, replicas: int, limit: str) -> None:
    found = pace.into_bounds(current, 2, 5)
    assert (found.replicas, found.limited, found.limit) == (replicas, True, limit)
