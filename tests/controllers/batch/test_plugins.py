"""Plugins of a Job: what they add to pods, and the objects that they give the Job."""

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from tests.controllers.batch.batch_objects import job, task

from rota.api.batch import job_rules, plugin_arguments
from rota.controllers.batch import job_pods
from rota.controllers.batch.plugins import registry


def made(*tasks: dict[str, Any], **plugins: list[str]) -> dict[str, Any]:
    found = {**job(*tasks, plugins=plugins)}
    found["metadata"] = {**found["metadata"], "uid": "u"}
    job_rules.set_defaults(found)
    return found


def pod(of: dict[str, Any], name: str, index: int) -> dict[str, Any]:
    wanted = next(one for one in of["spec"]["tasks"] if one["name"] == name)
    return job_pods.pod(of, wanted, index)


def variables(of: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in of["spec"]["containers"][0].get("env", ())}


def objects(of: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = [one.make() for plugin in registry.plugins_of(of) for one in plugin.wanted(of)]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def test_every_plugin_with_arguments_exists() -> None:
    assert set(registry.PLUGINS) == set(plugin_arguments.FLAGS)


def test_env_tells_a_pod_its_number() -> None:
    found = variables(pod(made(task("w", 2), env=[]), "w", 1))
    assert (found["VC_TASK_INDEX"], found["VK_TASK_INDEX"]) == ("1", "1")


def test_svc_names_the_pods_of_a_job() -> None:
    of = made(task("ps"), task("big-w", 2), svc=[])
    found, one = objects(of), pod(of, "big-w", 1)
    assert (one["spec"]["hostname"], one["spec"]["subdomain"]) == ("work-big-w-1", "work")
    service = found["Service/work"]["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", False)
    assert found["ConfigMap/work-svc"]["data"] == {
        "ps.host": "work-ps-0.work",
        "VC_PS_HOSTS": "work-ps-0.work",
        "VC_PS_NUM": "1",
        "big-w.host": "work-big-w-0.work\nwork-big-w-1.work",
        "VC_BIG_W_HOSTS": "work-big-w-0.work,work-big-w-1.work",
        "VC_BIG_W_NUM": "2",
    }
    assert "NetworkPolicy/work" in found
    assert {"name": "work-svc", "mountPath": "/etc/volcano"} in one["spec"]["containers"][0]["volumeMounts"]
    assert variables(one)["VC_PS_HOSTS"] == {"configMapKeyRef": {"name": "work-svc", "key": "VC_PS_HOSTS"}}


def test_svc_obeys_its_arguments() -> None:
    flags = ["--publish-not-ready-addresses=true", "--disable-network-policy", "--inject-hosts-env=false"]
    of = made(task("w"), svc=flags)
    found = objects(of)
    assert found["Service/work"]["spec"]["publishNotReadyAddresses"] is True
    assert "NetworkPolicy/work" not in found
    assert "VC_W_HOSTS" not in variables(pod(of, "w", 0))


def test_ssh_gives_all_pods_one_key_pair() -> None:
    of = made(task("w", 2), ssh=["--ssh-key-file-path=/home/me/.ssh"])
    files = {name: base64.b64decode(text) for name, text in objects(of)["Secret/work-ssh"]["data"].items()}
    private = serialization.load_pem_private_key(files["id_rsa"], password=None)
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert files["id_rsa.pub"].strip() == files["authorized_keys"].strip() == public
    assert b"StrictHostKeyChecking no" in files["config"]
    assert b"Host work-w-1\n  HostName work-w-1.work" in files["config"]
    mounts = pod(of, "w", 0)["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "work-ssh", "mountPath": "/home/me/.ssh"} in mounts


def test_pytorch_ranks_the_master_first() -> None:
    of = made(task("master"), task("worker", 3), pytorch=["--port=1234"])
    found = [variables(pod(of, "master", 0)), *(variables(pod(of, "worker", index)) for index in range(3))]
    assert [one["RANK"] for one in found] == ["0", "1", "2", "3"]
    assert {(one["MASTER_ADDR"], one["MASTER_PORT"], one["WORLD_SIZE"]) for one in found} == {
        ("work-master-0.work", "1234", "4")
    }


def test_workers_of_pytorch_may_wait_for_the_master() -> None:
    of = made(task("master"), task("worker"), pytorch=["--wait-master-enabled", "--wait-master-timeout", "9"])
    (waiting,) = pod(of, "worker", 0)["spec"]["initContainers"]
    assert "nc -z work-master-0.work 23456" in waiting["command"][2]
    assert "initContainers" not in pod(of, "master", 0)["spec"]


def test_tensorflow_describes_the_cluster() -> None:
    of = made(task("ps", 1), task("worker", 2), task("other"), tensorflow=[])
    config = json.loads(variables(pod(of, "worker", 1))["TF_CONFIG"])
    assert config == {
        "cluster": {"ps": ["work-ps-0.work:2222"], "worker": ["work-worker-0.work:2222", "work-worker-1.work:2222"]},
        "task": {"type": "worker", "index": 1},
    }
    assert "TF_CONFIG" not in variables(pod(of, "other", 0))


def test_mpi_tells_the_master_its_workers() -> None:
    of = made(task("lead"), task("hand", 2), mpi=["--master=lead", "--worker=hand", "--port=2200"])
    assert variables(pod(of, "lead", 0))["MPI_HOST"] == "work-hand-0.work,work-hand-1.work"
    assert "MPI_HOST" not in variables(pod(of, "hand", 0))
    assert pod(of, "hand", 0)["spec"]["containers"][0]["ports"][0]["containerPort"] == 2200


def test_ray_starts_a_head_and_workers_that_join_it() -> None:
    head, worker = task("head"), task("worker", 2)
    for one in (head, worker):
        one["template"]["spec"]["containers"][0] = {"name": one["name"], "image": "ray"}
    of = made(head, worker, ray=[])
    assert "--head" in pod(of, "head", 0)["spec"]["containers"][0]["args"][0]
    assert pod(of, "worker", 1)["spec"]["containers"][0]["args"] == [
        "ray start --block --address=work-head-0.work:6379"
    ]
    ports = [one["port"] for one in objects(of)["Service/work-head-svc"]["spec"]["ports"]]
    assert ports == [6379, 8265, 10001]


@pytest.mark.parametrize(("name", "index", "rank"), [("master", 0, "0"), ("worker", 1, "2")])
def test_hcclrank_annotates_the_rank(name: str, index: int, rank: str) -> None:
    of = made(task("master"), task("worker", 2), hcclrank=[])
    assert pod(of, name, index)["metadata"]["annotations"]["hccl/rankIndex"] == rank


def test_claims_are_created_or_used() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    of = made(task("w"))
    of["spec"]["volumes"] = [
        {"mountPath": "/in", "volumeClaimName": "data"},
        {"mountPath": "/out", "volumeClaim": claim},
    ]
    assert [one["metadata"]["name"] for one in job_pods.claims(of)] == ["work-volume-1"]
    one = pod(of, "w", 0)
    named = {one["name"]: one["persistentVolumeClaim"]["claimName"] for one in one["spec"]["volumes"]}
    assert named == {"volume-0": "data", "volume-1": "work-volume-1"}
    assert [mount["mountPath"] for mount in one["spec"]["containers"][0]["volumeMounts"]] == ["/in", "/out"]
