"""`rota.task(gang=…)`: several processes run a function at once and talk to each other."""

import asyncio
import importlib.util
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.api import gangs, resources
from rota.client import verbs
from rota.client.paths import Target
from rota.client.pods import PODS
from rota.python import manifests, serialization
from rota.python.options import OptionError, Options
from rota.python.serialization import Packed


def test_a_gang_is_a_job_whose_pods_start_together() -> None:
    packed = Packed(name="f", content=serialization.pack(len, ("x",), {}, name="f"))
    job = manifests.job("f-1", "default", packed, Options(gang=4, queue="night"), session="s", parts=1)
    spec = job["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (4, 4, "Indexed")
    template = spec["template"]
    assert template["metadata"]["annotations"] == {
        "scheduling.volcano.sh/queue-name": "night",
        "scheduling.volcano.sh/group-min-member": "4",
    }
    assert (template["spec"]["schedulerName"], template["spec"]["subdomain"]) == ("volcano", "f-1")
    named = {one["name"]: one.get("value") for one in template["spec"]["containers"][0]["env"]}
    assert (named["WORLD_SIZE"], named["MASTER_ADDR"]) == ("4", "f-1-0.f-1")
    assert template["metadata"]["labels"][gangs.PORT_LABEL] == named["MASTER_PORT"]


@pytest.mark.parametrize(
    ("index", "port", "taken"),
    [
        ("0", "20007", [20007]),
        ("1", "20007", []),
        ("0", "80", []),
        ("0", "30000", []),
        ("0", "²0007", []),
        ("0", "9" * 5000, []),
        ("", "20007", []),
    ],
)
def test_the_first_process_of_a_gang_takes_its_port(index: str, port: str, taken: list[int]) -> None:
    pod = {"metadata": {"labels": {gangs.INDEX_LABEL: index, gangs.PORT_LABEL: port}}, "spec": {"containers": []}}
    assert [one.port for one in resources.host_ports(pod)] == taken


def test_a_gang_is_not_retried() -> None:
    with pytest.raises(OptionError, match="not retried"):
        rota.task(gang=2, retries=1)


def test_a_step_that_is_a_gang_has_its_size() -> None:
    @rota.task(gang=2, queue="night")
    def work() -> int:
        return 1

    @rota.task
    def use(number: int) -> int:
        return number

    @rota.pipeline
    def whole() -> int:
        return use(work())

    alone, after = whole.manifest()["spec"]["steps"][::-1]
    assert (after["name"], after["gang"], "gang" in alone) == ("work", 2, False)
    assert after["template"]["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] == "night"
    with pytest.raises(rota.PipelineError, match="workspace is on one"):
        rota.pipeline(workspace=True, name="whole")(whole.function).manifest()


def test_the_example_of_a_gang_runs_here_too() -> None:
    assert _example().regression() == "y = 3.0x + 2.0, by 1 processes"


def _example() -> Any:
    path = Path(__file__).parents[2] / "examples" / "gang_pipeline.py"
    spec = importlib.util.spec_from_file_location("gang_pipeline", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as an import would; otherwise its functions belong to no module
    spec.loader.exec_module(module)
    return module


@rota.task(gang=4)
def total(base: int) -> tuple[int, int]:
    """Every process sends a number to the first one, which adds them up."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        with socket.create_server(("", address[1])) as server:
            others = [server.accept()[0] for _ in range(size - 1)]
            return size, base + sum(int(one.recv(16)) for one in others)
    until = time.monotonic() + 80
    while time.monotonic() < until:
        try:
            with socket.create_connection(address, timeout=30) as first:
                first.sendall(str(base * (rank + 1)).encode())
                return size, 0
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the first process does not answer")


@rota.task(gang=2)
def broken() -> int:
    if os.environ["RANK"] == "1":
        raise ValueError("process one gives up")
    time.sleep(600)
    return 0


@pytest.mark.slow
def test_four_processes_add_up_a_sum(client: rota.Client) -> None:
    assert client.submit(total, 10).result(100) == (4, 100)
    run = _example().regression.run(client)
    assert run.result(200) == "y = 3.0x + 2.0, by 4 processes"


@pytest.mark.slow
def test_processes_find_each_other_by_a_service_that_comes_after_them(
    client: rota.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = verbs.Client.create

    async def create_late(self: verbs.Client, target: Target, made: verbs.Object, **more: Any) -> verbs.Object:
        if target == manifests.SERVICES:
            of_gang = verbs.Selection(labels=f"{manifests.JOB_LABEL}={made['metadata']['name']}")
            async with asyncio.timeout(60):
                while True:
                    found = await self.list(PODS, namespace="default", selection=of_gang)
                    if [one.get("status", {}).get("phase") for one in found.items] == ["Running"] * 4:
                        break
                    await asyncio.sleep(0.1)
        return await create(self, target, made, **more)

    monkeypatch.setattr(verbs.Client, "create", create_late)
    assert client.submit(total, 20).result(100) == (4, 200)


@pytest.mark.slow
def test_one_failed_process_fails_the_gang(client: rota.Client) -> None:
    with pytest.raises(ValueError, match="process one gives up"):
        client.submit(broken).result(100)


@pytest.mark.slow
def test_a_queue_lets_a_task_in(client: rota.Client) -> None:
    assert client.submit(rota.task(queue="default")(abs), -3).result(100) == 3
