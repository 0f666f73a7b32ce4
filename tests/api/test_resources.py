"""Pod requests, node allocatable, ports and fit: upstream's worked cases, and laws against a plain model."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import resources
from rota.api.resources import HostPort

MIB = 1024 * 1024


def _container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


def _init(*, always: bool, requests: dict[str, str]) -> dict[str, Any]:
    return {**_container(**requests), "restartPolicy": "Always"} if always else _container(**requests)


def _pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


def test_application_containers_are_summed_exactly_and_rounded_once() -> None:
    pod = _pod(_container(cpu="0.1m", memory="0.5"), _container(cpu="0.1m", memory="1.5"))
    assert resources.pod_requests(pod) == {"cpu": 1, "memory": 2}


@pytest.mark.parametrize(
    ("containers", "init", "cpu"),
    [
        (["1"], ["3"], 3000),
        (["2"], ["1"], 2000),
        (["1"], ["+1", "3"], 4000),
        (["1"], ["3", "+1"], 3000),
        (["1"], ["+1", "+1"], 3000),
        (["1"], ["2", "+1", "2", "+1", "1"], 3000),
        (["1"], ["2", "+1", "4", "+1", "1"], 5000),
        ([], ["2"], 2000),
    ],
)
def test_init_containers_count_with_the_sidecars_started_before_them(
    containers: list[str], init: list[str], cpu: int
) -> None:
    pod = _pod(
        *(_container(cpu=one) for one in containers),
        init=tuple(_init(always=one.startswith("+"), requests={"cpu": one.lstrip("+")}) for one in init),
    )
    assert resources.pod_requests(pod) == {"cpu": cpu}


def test_overhead_is_added_unless_left_out() -> None:
    pod = _pod(_container(cpu="1"), overhead={"cpu": "250m", "memory": "1Mi"})
    assert resources.pod_requests(pod) == {"cpu": 1250, "memory": MIB}
    assert resources.pod_requests(pod, exclude_overhead=True) == {"cpu": 1000}


def test_pod_level_requests_replace_the_sum_where_they_may() -> None:
    pod = _pod(
        _container(cpu="1", memory="1Mi", **{"example.com/gpu": "1"}),
        resources={"requests": {"cpu": "3", "hugepages-2Mi": "2Mi", "example.com/gpu": "9"}},
        overhead={"cpu": "1"},
    )
    assert resources.pod_requests(pod) == {
        "cpu": 4000, "memory": MIB, "hugepages-2Mi": 2 * MIB, "example.com/gpu": 1,
    }  # fmt: skip


def test_limits_alone_at_pod_level_change_nothing() -> None:
    pod = _pod(_container(cpu="1"), resources={"limits": {"cpu": "3"}})
    assert resources.pod_requests(pod) == {"cpu": 1000}
    assert not resources.has_pod_level_requests(pod)


def _resized(*, allotted: str | None, in_force: str | None, infeasible: bool = False) -> dict[str, Any]:
    status: dict[str, Any] = {"name": "c"}
    if allotted:
        status["allocatedResources"] = {"cpu": allotted}
    if in_force:
        status["resources"] = {"requests": {"cpu": in_force}}
    conditions = [{"type": "PodResizePending", "reason": "Infeasible" if infeasible else "Deferred"}]
    return {**_pod(_container(cpu="2")), "status": {"containerStatuses": [status], "conditions": conditions}}


@pytest.mark.parametrize(
    ("allotted", "in_force", "infeasible", "cpu"),
    [
        (None, None, False, 2000),
        ("3", "1", False, 3000),
        ("1", "4", False, 4000),
        ("1", "1", False, 2000),
        ("1", "1", True, 1000),
        ("1", None, True, 1000),
        (None, "1", True, 1000),
    ],
)
def test_a_resize_under_way_counts_the_largest_claim(
    allotted: str | None, in_force: str | None, infeasible: bool, cpu: int
) -> None:
    pod = _resized(allotted=allotted, in_force=in_force, infeasible=infeasible)
    assert resources.pod_requests(pod, use_status=True) == {"cpu": cpu}
    assert resources.pod_requests(pod) == {"cpu": 2000}


def test_pod_level_status_counts_without_the_overhead_that_is_added_again() -> None:
    pod = _pod(_container(cpu="1"), resources={"requests": {"cpu": "2"}}, overhead={"cpu": "500m"})
    pod["status"] = {"allocatedResources": {"cpu": "3500m"}, "resources": {"requests": {"cpu": "2500m"}}}
    assert resources.pod_requests(pod, use_status=True) == {"cpu": 3500}


def test_scoring_assumes_something_for_containers_that_say_nothing() -> None:
    pod = _pod(_container(), _container(cpu="0"), _container(memory="1Mi"))
    assert resources.non_zero_requests(pod) == {"cpu": 200, "memory": 401 * MIB}
    assert resources.pod_requests(pod) == {"cpu": 0, "memory": MIB}


def test_scoring_assumes_nothing_for_what_is_set_at_pod_level() -> None:
    pod = _pod(_container(), resources={"requests": {"cpu": "1"}})
    assert resources.non_zero_requests(pod) == {"cpu": 1000, "memory": 200 * MIB}


def test_allocatable_falls_back_to_capacity_and_counts_pods() -> None:
    capacity = {"cpu": "3.5", "memory": "1Ki", "pods": "110"}
    assert resources.node_allocatable({"status": {"capacity": capacity}}) == {"cpu": 3500, "memory": 1024, "pods": 110}
    assert resources.node_allocatable({"status": {"capacity": capacity, "allocatable": {"cpu": 2}}}) == {"cpu": 2000}
    assert resources.node_allocatable({}) == {}


def test_fit_names_every_resource_that_is_missing() -> None:
    free = {"cpu": 1000, "memory": 10, "pods": 0, "example.com/gpu": -1}
    request = {"cpu": 1001, "memory": 10, "ephemeral-storage": 1, "example.com/gpu": 1, "hugepages-2Mi": 0, "odd": 5}
    missing = resources.fits(free, request)
    assert [one.reason for one in missing] == [
        "Too many pods",
        "Insufficient cpu",
        "Insufficient ephemeral-storage",
        "Insufficient example.com/gpu",
    ]
    assert missing[-1].free == -1


def test_a_pod_that_asks_for_nothing_fits_even_an_overcommitted_node() -> None:
    assert resources.fits({"cpu": -500, "pods": 1}, {"cpu": 0}) == []


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("example.com/gpu", True),
        ("hugepages-1Gi", True),
        ("attachable-volumes-csi", True),
        ("kubernetes.io/batch-cpu", True),
        ("cpu", False),
        ("storage", False),
        ("requests.example.com/gpu", False),
    ],
)
def test_scalar_resources_are_recognized_by_their_names(name: str, scalar: bool) -> None:
    assert resources.is_scalar(name) is scalar


def test_host_ports_are_those_of_lasting_containers() -> None:
    pod = _pod(
        {"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]},
        init=(
            {"name": "once", "ports": [{"containerPort": 1, "hostPort": 1}]},
            {"name": "side", "restartPolicy": "Always",
             "ports": [{"containerPort": 2, "hostPort": 2, "hostIP": "10.0.0.1", "protocol": "UDP"}]},
        ),
    )  # fmt: skip
    assert resources.host_ports(pod) == (HostPort("0.0.0.0", "TCP", 8080), HostPort("10.0.0.1", "UDP", 2))


@pytest.mark.parametrize(
    ("wanted", "used", "conflict"),
    [
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
    ],
)
def test_ports_conflict_where_their_addresses_overlap(
    wanted: tuple[str, str, int], used: tuple[str, str, int], conflict: bool
) -> None:
    assert bool(resources.conflicting_ports([HostPort(*wanted)], [HostPort(*used)])) is conflict


ports = st.builds(
    HostPort, st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]), st.integers(1, 3)
)


@given(st.lists(ports, max_size=5), st.lists(ports, max_size=5))
def test_port_conflicts_are_found_in_any_order(left: list[HostPort], right: list[HostPort]) -> None:
    assert bool(resources.conflicting_ports(left, right)) is bool(resources.conflicting_ports(right, left))
    pairwise = [one for one in left if any(one.conflicts(other) for other in right)]
    assert resources.conflicting_ports(left, right) == pairwise


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/x"]), st.integers(0, 5), max_size=3)
container_needs = st.tuples(amounts, st.booleans())


@given(st.lists(amounts, max_size=3), st.lists(container_needs, max_size=4))
def test_requests_are_the_peak_of_the_pods_life(
    containers: list[dict[str, int]], init: list[tuple[dict[str, int], bool]]
) -> None:
    """The model: write down what runs in each phase of the pod's life, and take the maximum over the phases."""
    phases: list[list[dict[str, int]]] = []
    sidecars: list[dict[str, int]] = []
    for needs, always in init:
        phases.append([*sidecars, needs])
        if always:
            sidecars.append(needs)
    phases.append([*sidecars, *containers])
    peak = {
        name: max(sum(needs.get(name, 0) for needs in phase) for phase in phases)
        for name in {name for phase in phases for needs in phase for name in needs}
    }
    pod = _pod(
        *(_container(**{name: str(count) for name, count in needs.items()}) for needs in containers),
        init=tuple(
            _init(always=always, requests={name: str(count) for name, count in needs.items()}) for needs, always in init
        ),
    )
    in_units = {name: count * 1000 if name == "cpu" else count for name, count in peak.items()}
    assert resources.pod_requests(pod) == in_units
    assert resources.pod_requests(pod, use_status=True) == in_units


@given(amounts, amounts, st.integers(0, 3))
def test_a_pod_fits_exactly_if_taking_it_leaves_nothing_negative(
    allocatable: dict[str, int], request: dict[str, int], pods: int
) -> None:
    free = {**allocatable, "pods": pods}
    left = resources.subtract(free, {**request, "pods": 1})
    fits = all(left[name] >= 0 for name in ("pods", *(name for name, wanted in request.items() if wanted)))
    assert (resources.fits(free, request) == []) is fits
