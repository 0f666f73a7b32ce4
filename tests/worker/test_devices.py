"""Devices of containers: no two have the same one at the same time, and each keeps its own for as long as it lives."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.worker.devices import Devices
from rota.worker.runtimes.runtime_interface import Launch, LaunchError

GPU = "nvidia.com/gpu"


def a_pod(uid: str, *, init: Mapping[str, Any] | None = None, **containers: int) -> dict[str, Any]:
    def described(name: str, amount: int) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": {GPU: str(amount), "cpu": "1"}}}

    spec = {
        "containers": [described(name, amount) for name, amount in containers.items()],
        "initContainers": [{**described("init", 0), **(init or {})}] if init else [],
    }
    return {"metadata": {"uid": uid, "name": uid, "namespace": "default"}, "spec": spec}


def a_launch(uid: str, container: str = "c", **env: str) -> Launch:
    return Launch(
        uid=uid, namespace="default", pod=uid, container=container, run=0, image="", command=(), args=(), env=env
    )


def numbers(launch: Launch) -> set[int]:
    return {int(one) for one in launch.env["CUDA_VISIBLE_DEVICES"].split(",")}


def devices(folder: Path, amount: int = 4, first: int = 0) -> Devices:
    return Devices(folder / "devices.ledger", allocatable={GPU: amount, "cpu": 4000}, first={GPU: first})


def test_containers_get_their_devices_in_variables_unless_they_set_them(tmp_path: Path) -> None:
    row = devices(tmp_path, amount=2, first=2)
    got = row.given(a_launch("a"), a_pod("a", c=2))
    assert {got.env[name] for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")} == {"2,3"}
    assert got.env["ROTA_DEVICES_NVIDIA_COM_GPU"] == "2,3"
    row.release("a")
    assert row.given(a_launch("b", CUDA_VISIBLE_DEVICES="7"), a_pod("b", c=1)).env["CUDA_VISIBLE_DEVICES"] == "7"


def test_a_container_without_devices_gets_no_variables(tmp_path: Path) -> None:
    launch = a_launch("a")
    assert devices(tmp_path).given(launch, a_pod("a", c=0)) is launch


def test_what_is_not_free_is_waited_for_by_name(tmp_path: Path) -> None:
    row = devices(tmp_path, amount=2)
    row.given(a_launch("a"), a_pod("a", c=1))
    with pytest.raises(LaunchError, match=r"2 of nvidia\.com/gpu asked for and 1 free"):
        row.given(a_launch("b"), a_pod("b", c=2))
    row.release("a")
    assert numbers(row.given(a_launch("b"), a_pod("b", c=2))) == {0, 1}


def test_containers_have_again_what_the_init_container_had_unless_it_stays(tmp_path: Path) -> None:
    asks = {"resources": {"limits": {GPU: 2}}}
    row = devices(tmp_path, amount=2)
    pod = a_pod("a", c=2, init=asks)
    assert numbers(row.given(a_launch("a", "init"), pod)) == numbers(row.given(a_launch("a"), pod)) == {0, 1}
    row.release("a")
    staying = a_pod("b", c=1, init={**asks, "restartPolicy": "Always", "resources": {"limits": {GPU: 1}}})
    assert numbers(row.given(a_launch("b", "init"), staying)) == {0}
    assert numbers(row.given(a_launch("b"), staying)) == {1}


@given(steps=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["take", "end", "crash"])), max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_device_is_assigned_twice(steps: list[tuple[int, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("devices")
    row, held = devices(folder), dict[str, set[int]]()
    for which, what in steps:
        uid = f"pod-{which}"
        if what == "take":
            amount = which % 3 + 1
            try:
                got = numbers(row.given(a_launch(uid), a_pod(uid, c=amount)))
            except LaunchError:
                assert uid not in held
                assert 4 - sum(len(one) for one in held.values()) < amount
                continue
            assert held.setdefault(uid, got) == got
            assert len(got) == amount
        elif what == "end":
            row.release(uid)
            held.pop(uid, None)
        else:
            row.close()
            row = devices(folder)
            row.keep(held)
        assert len(set().union(*held.values())) == sum(len(one) for one in held.values())
    row.close()


SHARE = "rota.dev/gpu-milli"


def a_sharing_row(folder: Path, first: int = 0) -> Devices:
    return Devices(folder / "devices.ledger", allocatable={GPU: 2, SHARE: 2000}, first={GPU: first})


def a_bound_pod(uid: str, devices: str, **limits: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    metadata = {"uid": uid, "name": uid, "namespace": "default", "annotations": {"rota.dev/gpu-devices": devices}}
    return {"metadata": metadata, "spec": spec}


def test_pods_with_shares_get_the_device_of_their_binding_and_are_told_how_much_of_it(tmp_path: Path) -> None:
    row = a_sharing_row(tmp_path, first=4)
    one, two = (a_bound_pod(uid, "1", **{SHARE: "250"}) for uid in ("a", "b"))
    got = row.given(a_launch("a"), one).env
    assert (got["CUDA_VISIBLE_DEVICES"], got["ROTA_GPU_MILLI"], got["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == (
        "5",
        "250",
        "25",
    )
    assert numbers(row.given(a_launch("b"), two)) == {5}


def test_a_whole_device_is_not_given_while_a_pod_has_a_share_of_it_nor_the_other_way_round(tmp_path: Path) -> None:
    row = a_sharing_row(tmp_path)
    row.given(a_launch("a"), a_bound_pod("a", "0", **{SHARE: "250"}))
    whole = a_bound_pod("b", "0", **{GPU: "1"})
    with pytest.raises(LaunchError, match="0 free"):
        row.given(a_launch("b"), whole)
    row.release("a")
    assert numbers(row.given(a_launch("b"), whole)) == {0}
    with pytest.raises(LaunchError, match="still with a pod that ends"):
        row.given(a_launch("c"), a_bound_pod("c", "0", **{SHARE: "250"}))


def test_the_devices_of_a_binding_are_divided_among_the_containers_of_a_pod(tmp_path: Path) -> None:
    row = a_sharing_row(tmp_path)
    pod = a_pod("a", one=1, two=1)
    pod["metadata"]["annotations"] = {"rota.dev/gpu-devices": "0,1"}
    assert [numbers(row.given(a_launch("a", name), pod)) for name in ("one", "two")] == [{0}, {1}]


def test_a_share_without_a_device_in_the_binding_waits_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="names no device"):
        a_sharing_row(tmp_path).given(a_launch("a"), a_bound_pod("a", "", **{SHARE: "250"}))
