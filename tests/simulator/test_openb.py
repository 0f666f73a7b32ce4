"""OpenB's files as a workload: what is read, what is refused, and the protocol of the published study."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.kit.errors import UserError
from rota.simulator import arrivals, policies
from rota.simulator.loaders import openb
from rota.simulator.ties import TieRule
from rota.simulator.traces import Trace

_NODES = """sn,cpu_milli,memory_mib,gpu,model
n-2,64000,262144,2,P100
n-1,96000,393216,8,G2
n-3,64000,262144,2,T4
"""
_PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,12000,16384,1,1000,,LS,Running,0,100,0
p-1,6000,12288,1,460,,LS,Running,5,50,10
p-2,6000,12288,1,460,,LS,Running,7,50,10
p-3,8000,16384,8,1000,G2,LS,Running,8,60,9
p-4,8000,16384,0,0,,LS,Running,9,60,9
"""


def folder(at: Path, *, nodes: str = _NODES, pods: str = _PODS) -> Path:
    (at / "openb_node_list_gpu_node.csv").write_text(nodes)
    (at / "openb_pod_list_default.csv").write_text(pods)
    return at


def test_nodes_come_in_the_order_of_their_names_and_equal_pods_share_a_template(tmp_path: Path) -> None:
    trace = openb.load(folder(tmp_path))
    assert [node["metadata"]["name"] for node in trace.nodes] == ["n-1", "n-2", "n-3"]
    assert len(trace) == 5
    assert len(trace.templates) == 4
    assert trace.template[1] == trace.template[2]
    assert trace.duration.tolist() == [100, 40, 40, 51, 51]
    assert arrivals.template_demand(trace)[trace.template].tolist() == [1000, 460, 460, 8000, 0]
    assert arrivals.gpu_capacity(trace) == 12_000


@pytest.mark.parametrize(
    ("nodes", "pods", "told"),
    [
        (_NODES.replace("gpu,", "gpus,"), _PODS, 'line 1: the column "gpu" is missing'),
        (_NODES + "n-1,1,1,0,T4\n", _PODS, 'line 5, field sn: there is another node "n-1"'),
        (_NODES.replace("n-3,64000", "n-3,-64000"), _PODS, "line 4, field cpu_milli: -64000 is negative"),
        (_NODES, _PODS.replace("p-1,6000", "p-1,many"), 'line 3, field cpu_milli: "many" is no number'),
        (_NODES, _PODS.replace("5,50,10", "5,9,10"), "line 3, field deletion_time: 9 is before the start, at 10"),
        (_NODES, _PODS.replace("p-2", "p-1"), 'line 4, field name: there is another pod "p-1"'),
        (_NODES, _PODS.replace("1,460", "1,1460", 1), "line 3, field gpu_milli: 1460 is more than one GPU has"),
        (_NODES, _PODS.replace("p-4,8000,16384", "p-4,8000"), "line 6, field scheduled_time: the row has 10 fields"),
    ],
)
def test_a_fault_names_its_line_and_field_and_a_lenient_reader_counts_it(
    tmp_path: Path, nodes: str, pods: str, told: str
) -> None:
    place = folder(tmp_path, nodes=nodes, pods=pods)
    with pytest.raises(UserError) as caught:
        openb.load(place)
    assert told in str(caught.value)
    if "missing" not in told:
        assert openb.load(place, lenient=True).skipped.number == 1


def test_an_unknown_pod_list_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match='no pod list "other"; the lists there are default'):
        openb.load(folder(tmp_path), "other")


@given(seed=st.integers(0, 1000), ratio=st.floats(0.1, 4))
def test_a_tuned_trace_has_the_wanted_demand_and_begins_with_the_trace_itself(
    small: Trace, seed: int, ratio: float
) -> None:
    tuned = arrivals.tuned(small, seed, ratio=ratio)
    demand = arrivals.template_demand(small)
    wanted = ratio * arrivals.gpu_capacity(small)
    total = int(demand[tuned.template].sum())
    assert total <= wanted
    assert len(set(tuned.names)) == len(tuned)
    if total >= demand[small.template].sum():
        # Nothing was left out: the next sample would have exceeded the demand.
        assert sorted(tuned.names[: len(small)]) == sorted(small.names)
        assert wanted - total < demand.max()
    assert tuned.names == arrivals.tuned(small, seed, ratio=ratio).names


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return openb.load(folder(tmp_path_factory.mktemp("openb")))


@pytest.mark.parametrize("rule", list(TieRule))
def test_equal_seeds_give_equal_runs_and_nothing_is_oversold(small: Trace, rule: TieRule) -> None:
    tuned = arrivals.tuned(small, 7)
    policy = policies.named("default")
    first, again = (arrivals.run(tuned, policy.load({}), seed=7, ties_by=rule) for _ in range(2))
    assert first.nodes == again.nodes
    assert np.array_equal(first.allocated, again.allocated)
    assert first.placed + first.failed == len(tuned)
    assert (first.allocated <= np.minimum(first.arrived, 100)).all()


def test_the_smallest_name_wins_among_equal_nodes(small: Trace) -> None:
    alone = small.with_arrivals(np.array([4]))
    assert arrivals.run(alone, policies.named("default").load({}), seed=1).nodes == ("n-1",)
