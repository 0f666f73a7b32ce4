"""Pods that share namespaces with their machine, without the stock server."""

from typing import Any

import pytest

from rota.api import fields
from rota.apiserver.strategies import pod_specs

_SPEC: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}


def _refusals(**spec: Any) -> list[str]:
    found = pod_specs.validate({**_SPEC, **spec}, fields.Path("spec"))
    return [str(one) for one in found if "hostUsers" in str(one) or "may not be specified" in str(one)]


def test_user_ids_of_its_own_exclude_other_namespaces_of_the_machine() -> None:
    assert _refusals(hostUsers=False) == []
    assert _refusals(hostPID=True, hostIPC=True) == []
    assert _refusals(hostUsers=False, hostPID=True, hostIPC=True) == [
        "spec.HostPID: Forbidden: when `hostUsers` is false",
        "spec.HostIPC: Forbidden: when `hostUsers` is false",
    ]


def test_ports_in_the_network_of_the_machine_are_its_own() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 81}, {"containerPort": 82}]
    spec = {"containers": [{"name": "c", "image": "i", "ports": ports}]}
    found = [str(one) for one in pod_specs.validate({**spec, "hostNetwork": True}, fields.Path("spec"))]
    why = "Invalid value: 8080: must match `containerPort` when `hostNetwork` is true"
    assert [one for one in found if "containerPort" in one] == [f"spec.containers[0].ports[0].hostPort: {why}"]
    assert not [one for one in pod_specs.validate(spec, fields.Path("spec")) if "containerPort" in str(one)]


@pytest.mark.parametrize(
    ("shared", "name", "refused"),
    [
        ("hostIPC", "kernel.msgmax", True),
        ("hostIPC", "kernel/sem", True),
        ("hostIPC", "fs.mqueue.msg_max", True),
        ("hostIPC", "net.core.somaxconn", False),
        ("hostNetwork", "net.core.somaxconn", True),
        ("hostNetwork", "net/ipv4/conf/eth0.1/forwarding", True),
        ("hostNetwork", "kernel.msgmax", False),
        ("hostPID", "kernel.msgmax", False),
    ],
)
def test_parameters_of_a_shared_namespace_are_refused(shared: str, name: str, *, refused: bool) -> None:
    context = {"sysctls": [{"name": name, "value": "1"}]}
    found = _refusals(**{shared: True}, securityContext=context)
    assert bool(found) == refused, found
