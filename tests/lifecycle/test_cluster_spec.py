"""The file of a cluster: what it may say, and which field is wrong."""

from typing import Any

import pytest
from tests.lifecycle.specs import document, parsed

from rota.kit.errors import UserError
from rota.lifecycle import cluster_spec
from rota.lifecycle.cluster_spec import Manager, Role


def test_a_file_has_masters_and_workers_with_their_defaults() -> None:
    spec = parsed(2, 1)
    assert [(one.name, one.role, one.port) for one in spec.members] == [
        ("m1", Role.MASTER, 6443),
        ("m2", Role.MASTER, 6443),
        ("w1", Role.WORKER, 10_250),
    ]
    assert spec.folder == "/var/lib/rota-lab"
    assert parsed(manager="systemd").manager is Manager.SYSTEMD


def test_labels_taints_and_resources_become_options_of_the_worker() -> None:
    worker = {
        "name": "w1",
        "address": "10.0.1.1",
        "labels": {"disk": "ssd"},
        "taints": ["gpu=yes:NoSchedule"],
        "resources": {"cpu": 4},
    }
    options = parsed(workers=[worker]).workers[0].options
    assert options == ("--labels=disk=ssd", "--taints=gpu=yes:NoSchedule", "--resources=cpu=4")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"storr": "sqlite"}, "wrong at spec.storr; there is no such field"),
        ({"store": "mysql://x"}, "wrong at spec.store"),
        ({"masters": []}, "wrong at spec.masters; name at least one master"),
        ({"masters": [{"name": "m1", "address": "a"}, {"name": "m2", "address": "b"}]}, "need a shared store"),
        ({"workers": [{"name": "m1", "address": "x"}]}, "wrong at m1; give every member a name of its own"),
        ({"workers": [{"name": "W", "address": "x"}]}, r"wrong at spec.workers\[0\].name"),
        ({"workers": [{"name": "w", "address": "-oProxyCommand=x"}]}, r"wrong at spec.workers\[0\].address"),
        ({"workers": [{"name": "w", "address": "x", "port": 0}]}, r"wrong at spec.workers\[0\].port"),
        ({"workers": [{"name": "w", "address": "x", "lables": {}}]}, r"wrong at spec.workers\[0\].lables"),
        ({"bundle": "x"}, "name either a bundle"),
        ({"program": "rota"}, "write an absolute path"),
        ({"folder": "/srv"}, "wrong at spec.folder"),
        ({"manager": "runit"}, "write one of systemd, processes"),
        ({"ssh": {"sudo": "yes"}}, "wrong at spec.ssh.sudo; write true or false"),
    ],
)
def test_what_is_wrong_is_named(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        parsed(**spec)


@pytest.mark.parametrize("wrong", [None, [], "text", {"kind": "Cluster"}, {**document(), "status": {}}])
def test_a_file_of_another_kind_is_refused(wrong: Any) -> None:
    with pytest.raises(UserError, match="the cluster file is wrong at"):
        cluster_spec.parse(wrong)
