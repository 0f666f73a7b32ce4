"""Containers as the engine is told of them."""

import signal
from typing import Any

import pytest

from rota.worker.runtimes.container import bundles
from rota.worker.runtimes.container.images import Config
from rota.worker.runtimes.container.users import User
from rota.worker.runtimes.runtime_interface import CONTAINER, Launch, Mount, Security

ROOT = User(0, 0)
IMAGE = Config(cmd=("x",))


def _config(user: User = ROOT, **fields: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"uid": "u", "namespace": "n", "pod": "p", "container": "c", "run": 0, "image": "i"}
    launch = Launch(**{**base, "command": (), "args": (), "env": {}, "runtime": CONTAINER, **fields})
    return bundles.config(launch, IMAGE, user, namespaces={"ipc": "/ns/ipc"}, files=[Mount(source="/s", target="/t")])


def _held(config: dict[str, Any]) -> tuple[set[str], set[str]]:
    held = config["process"]["capabilities"]
    return set(held["effective"]), set(held["bounding"])


def test_root_has_few_capabilities_and_others_have_none() -> None:
    effective, bounding = _held(_config())
    assert "CAP_CHOWN" in effective
    assert not {"CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_NET_ADMIN"} & bounding
    assert _held(_config(User(5, 5)))[0] == set()


def test_capabilities_are_added_and_dropped_by_any_spelling() -> None:
    effective, _ = _held(_config(security=Security(drop=("ALL",), add=("net_admin", "CAP_CHOWN"))))
    assert effective == {"CAP_NET_ADMIN", "CAP_CHOWN"}
    assert "CAP_KILL" not in _held(_config(security=Security(drop=("KILL",))))[0]


def test_a_privileged_container_has_all_capabilities_and_sees_all_devices() -> None:
    config = _config(security=Security(privileged=True, may_gain=False))
    assert "CAP_SYS_ADMIN" in _held(config)[0]
    assert config["linux"]["maskedPaths"] == []
    assert {"destination": "/dev", "type": "bind", "source": "/dev", "options": ["rbind", "rprivate", "rw"]} in config[
        "mounts"
    ]
    assert config["process"]["noNewPrivileges"] is False
    assert _config(security=Security(may_gain=False))["process"]["noNewPrivileges"] is True


def test_a_volume_takes_the_place_of_what_is_always_there() -> None:
    config = _config(mounts=(Mount(source="/v", target="/t/"), Mount(source="/w", target="/dev/shm", read_only=True)))
    places = [one["destination"] for one in config["mounts"]]
    assert len(places) == len(set(places))
    (shared,) = (one for one in config["mounts"] if one["destination"] == "/t")
    assert shared["source"] == "/v"
    assert places[-2:] == ["/t", "/dev/shm"], "after what they may lie in"


def test_the_pods_namespaces_are_joined_and_its_own_are_made() -> None:
    kinds = {one["type"]: one.get("path") for one in _config()["linux"]["namespaces"]}
    assert kinds == {"mount": None, "ipc": "/ns/ipc", "pid": None}
    assert "pid" not in {one["type"] for one in _config(host_pid=True)["linux"]["namespaces"]}


@pytest.mark.parametrize(
    ("name", "number"),
    [("", 15), ("SIGQUIT", 3), ("quit", 3), ("9", 9), ("999", 15), ("SIGNONSENSE", 15), ("RTMIN+3", 15)],
)
def test_signals_have_names_and_numbers(name: str, number: int) -> None:
    assert bundles.signal_number(name) == number == signal.Signals(number)
