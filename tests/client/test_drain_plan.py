"""What draining a node comes to, for every kind of pod."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rota.client import drain_plan
from rota.client.drain_plan import Allowance

BARE = Allowance()
EVERYTHING = Allowance(ignore_daemonsets=True, delete_emptydir_data=True, force=True)


def pod(name: str, *, owner: str = "", phase: str = "Running", empty_dir: bool = False, mirror: bool = False) -> Any:
    references = [{"kind": owner, "name": "o", "uid": "u", "controller": True}] if owner else []
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "ownerReferences": references,
            "annotations": {"kubernetes.io/config.mirror": "x"} if mirror else {},
        },
        "spec": {"volumes": [{"name": "v", "emptyDir": {}}] if empty_dir else []},
        "status": {"phase": phase},
    }


def names(pods: Any) -> list[str]:
    return [(one if isinstance(one, dict) else one[0])["metadata"]["name"] for one in pods]


def test_pods_that_a_controller_starts_elsewhere_are_evicted() -> None:
    plan = drain_plan.plan([pod("web", owner="ReplicaSet"), pod("batch", owner="Job")], BARE)
    assert (names(plan.evict), plan.refused, plan.stay) == (["web", "batch"], (), ())


def test_pods_without_a_controller_go_by_force_only_and_are_lost() -> None:
    plan = drain_plan.plan([pod("alone")], BARE)
    assert [option for _, _, option in plan.refused] == ["--force"]
    plan = drain_plan.plan([pod("alone")], Allowance(force=True))
    assert (names(plan.evict), names(plan.lost), plan.refused) == (["alone"], ["alone"], ())


def test_pods_of_daemon_sets_stay_if_that_is_fine() -> None:
    agent = pod("agent", owner="DaemonSet")
    assert [option for _, _, option in drain_plan.plan([agent], BARE).refused] == ["--ignore-daemonsets"]
    plan = drain_plan.plan([agent], Allowance(ignore_daemonsets=True))
    assert (names(plan.stay), plan.evict, plan.refused) == (["agent"], (), ())


def test_data_in_an_empty_folder_is_given_up_by_choice_only() -> None:
    cache = pod("cache", owner="ReplicaSet", empty_dir=True)
    assert [option for _, _, option in drain_plan.plan([cache], BARE).refused] == ["--delete-emptydir-data"]
    assert names(drain_plan.plan([cache], Allowance(delete_emptydir_data=True)).evict) == ["cache"]


def test_every_obstacle_of_a_pod_is_named_at_once() -> None:
    plan = drain_plan.plan([pod("both", empty_dir=True)], BARE)
    assert {option for _, _, option in plan.refused} == {"--delete-emptydir-data", "--force"}


def test_mirror_pods_stay_and_ended_pods_do_not_block() -> None:
    pods = [pod("static", mirror=True), pod("done", phase="Succeeded"), pod("broken", phase="Failed", empty_dir=True)]
    plan = drain_plan.plan(pods, BARE)
    assert (names(plan.stay), names(plan.evict), plan.refused) == (["static"], ["done", "broken"], ())


PODS = st.lists(
    st.builds(
        pod,
        st.text("abc", min_size=1),
        owner=st.sampled_from(["", "ReplicaSet", "DaemonSet", "Job"]),
        phase=st.sampled_from(["Running", "Pending", "Succeeded", "Failed"]),
        empty_dir=st.booleans(),
        mirror=st.booleans(),
    )
)


@given(PODS)
def test_with_all_options_nothing_is_refused_and_every_pod_is_decided(pods: list[Any]) -> None:
    plan = drain_plan.plan(pods, EVERYTHING)
    assert not plan.refused
    assert len(plan.evict) + len(plan.stay) == len(pods)


@given(
    PODS, st.builds(Allowance, ignore_daemonsets=st.booleans(), delete_emptydir_data=st.booleans(), force=st.booleans())
)
def test_allowing_what_was_asked_for_is_enough(pods: list[Any], allowance: Allowance) -> None:
    asked = {option.removeprefix("--").replace("-", "_") for _, _, option in drain_plan.plan(pods, allowance).refused}
    granted = {name: getattr(allowance, name) or name in asked for name in Allowance.__slots__}
    assert not drain_plan.plan(pods, Allowance(**granted)).refused
