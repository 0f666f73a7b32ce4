"""Lua customizations as users write them for Karmada, and what a script cannot do."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.federation.customization import lua_processes, lua_scripts
from rota.federation.customization.interpreter import Interpreter
from rota.federation.customization.lua_processes import LuaProcesses
from rota.federation.customization.lua_scripts import LuaProcess, LuaScripts, OutOfTime
from rota.federation.customization.operations import CannotInterpret
from rota.testing.clocks import FakeClock

pytest.importorskip("lupa")
pytestmark = pytest.mark.slow

WORKLOAD: dict[str, Any] = {
    "apiVersion": "workload.example.io/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "web", "namespace": "shop", "generation": 2, "labels": {}},
    "spec": {
        "replicas": 3,
        "paused": False,
        "hosts": [],
        "template": {
            "spec": {
                "containers": [
                    {"name": "a", "resources": {"requests": {"cpu": "250m"}}, "envFrom": [{"secretRef": {"name": "s"}}]}
                ]
            }
        },
    },
}
SCRIPTS = {
    "replicaResource": """
        local kube = require("kube")
        function GetReplicas(obj)
          return obj.spec.replicas, kube.accuratePodRequirements(obj.spec.template)
        end""",
    "replicaRevision": """
        function ReviseReplica(obj, desiredReplica)
          obj.spec.replicas = desiredReplica
          return obj
        end""",
    "retention": """
        function Retain(desiredObj, observedObj)
          desiredObj.spec.paused = observedObj.spec.paused
          return desiredObj
        end""",
    "statusAggregation": """
        function AggregateStatus(desiredObj, statusItems)
          local ready = 0
          for i = 1, #statusItems do
            ready = ready + (statusItems[i].status.readyReplicas or 0)
          end
          desiredObj.status = {readyReplicas = ready}
          return desiredObj
        end""",
    "statusReflection": """
        function ReflectStatus(observedObj)
          return {readyReplicas = observedObj.status.readyReplicas, zero = 0}
        end""",
    "healthInterpretation": """
        function InterpretHealth(observedObj)
          return observedObj.status.readyReplicas == observedObj.spec.replicas
        end""",
    "dependencyInterpretation": """
        local kube = require("kube")
        function GetDependencies(desiredObj)
          return kube.getPodDependencies(desiredObj.spec.template, desiredObj.metadata.namespace)
        end""",
    "componentResource": """
        local kube = require("kube")
        function GetComponents(desiredObj)
          return {{name = "main", replicas = desiredObj.spec.replicas}}
        end""",
}


def customization(name: str = "web", **scripts: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": WORKLOAD["apiVersion"], "kind": WORKLOAD["kind"]},
            "customizations": {member: {"luaScript": script} for member, script in scripts.items()},
        },
    }


@pytest.fixture
async def process() -> AsyncIterator[LuaProcess]:
    process = LuaProcess()
    yield process
    await process.close()


def interpreter(process: LuaProcess, *customizations: dict[str, Any]) -> Interpreter:
    rules = lua_scripts.rules(customizations)
    return Interpreter([LuaScripts(lambda: rules, process)])


async def test_every_operation_is_answered_by_its_script(process: LuaProcess) -> None:
    rules = interpreter(process, customization(**SCRIPTS))
    assert await rules.replicas(WORKLOAD) == (3, {"resourceRequest": {"cpu": "250m"}})
    assert await rules.components(WORKLOAD) == [{"name": "main", "replicas": 3}]
    # empty lists and maps of the object survive, though Lua cannot tell them apart
    assert await rules.revised(WORKLOAD, 7) == {**WORKLOAD, "spec": {**WORKLOAD["spec"], "replicas": 7}}
    observed = {**WORKLOAD, "spec": {**WORKLOAD["spec"], "paused": True}}
    assert await rules.retained(WORKLOAD, observed) == observed
    running = {**WORKLOAD, "status": {"readyReplicas": 3}}
    assert await rules.status(running) == {"readyReplicas": 3, "zero": 0}
    assert await rules.health(running) is True
    assert await rules.health({**WORKLOAD, "status": {"readyReplicas": 1}}) is False
    items = [{"clusterName": name, "status": {"readyReplicas": count}} for name, count in (("a", 1), ("b", 2))]
    assert await rules.aggregated(WORKLOAD, items, "") == {"readyReplicas": 3}
    assert await rules.dependencies(WORKLOAD) == [
        {"apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "s"}
    ]


async def test_of_several_customizations_the_first_by_name_counts_and_dependencies_add_up(process: LuaProcess) -> None:
    of = 'function GetDependencies(obj) return {{apiVersion = "v1", kind = "Secret", namespace = "n", name = "%s"}} end'
    number = "function GetReplicas(obj) return %d end"
    rules = interpreter(
        process,
        customization("b", replicaResource=number % 2, dependencyInterpretation=of % "b"),
        customization("a", replicaResource=number % 1, dependencyInterpretation=of % "a"),
    )
    assert await rules.replicas(WORKLOAD) == (1, None)
    assert [one["name"] for one in await rules.dependencies(WORKLOAD)] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("while true do end", "processor time"),
        ("local s = 'x' while true do s = s .. s end", "MiB of memory"),
        ("return os.execute('true')", "attempt to call field 'execute'"),
        ("return io.open('/etc/passwd')", "attempt to index global 'io'"),
        ("return require('os')", "module os is not available"),
        ("return loadstring('return 1')()", "loadstring is not available"),
        ("return getmetatable('')", "getmetatable is not available"),
        ("return python.builtins", "attempt to index global 'python'"),
        ("return 'many'", "not a whole number"),
        ("error('sorry')", "sorry"),
    ],
)
async def test_a_script_reaches_nothing_of_the_machine_and_ends(process: LuaProcess, body: str, why: str) -> None:
    rules = interpreter(
        process,
        customization(
            replicaResource=f"function GetReplicas(obj) {body} end",
            healthInterpretation="function InterpretHealth() return true end",
        ),
    )
    with pytest.raises(CannotInterpret, match=why) as refusal:
        await rules.replicas(WORKLOAD)
    assert "InterpretReplica of Workload shop/web" in str(refusal.value)
    # and the next script runs
    assert await rules.health(WORKLOAD) is True


async def test_calls_leave_nothing_to_each_other(process: LuaProcess) -> None:
    rules = interpreter(
        process,
        customization(
            replicaResource="function GetReplicas(obj) seen = (seen or 0) + 1 string.kept = seen return seen end"
        ),
    )
    assert [await rules.replicas(WORKLOAD) for _ in range(2)] == [(1, None), (1, None)]


async def test_kinds_without_a_script_are_read_natively(process: LuaProcess) -> None:
    rules = interpreter(process, customization(**SCRIPTS))
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}}
    assert await rules.replicas(deployment) == (2, None)
    assert await rules.replicas({"apiVersion": "v1", "kind": "ConfigMap"}) is None


async def test_a_slow_script_delays_only_its_own_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    used_up = asyncio.Event()

    class Child:
        """Answers with the script's name, except for the slow one, which uses up its time."""

        async def call(self, script: str, function: str, arguments: list[Any], **more: Any) -> list[Any]:
            if script == "slow":
                await used_up.wait()
                raise OutOfTime("used up")
            return [script]

        async def close(self) -> None: ...

    monkeypatch.setattr(lua_processes, "LuaProcess", Child)
    processes = LuaProcesses(clock=FakeClock())

    async def ask(script: str) -> list[Any]:
        return await processes.call(script, "GetReplicas", [WORKLOAD], returns=1, like_arguments=False)

    slow = [asyncio.create_task(ask("slow")) for _ in range(5)]
    await asyncio.sleep(0)
    assert await ask("quick") == ["quick"]
    assert not any(one.done() for one in slow)
    used_up.set()
    answers = [str(one) for one in await asyncio.gather(*slow, return_exceptions=True)]
    assert answers[0] == "used up"
    assert all("is not run for 1 s" in one for one in answers[1:]), "calls that waited fail at once"
    assert await ask("slow, but corrected") == ["slow, but corrected"]
    await processes.close()


async def test_a_slow_script_is_run_again_after_its_pause() -> None:
    clock = FakeClock()
    processes = LuaProcesses(clock=clock)
    script = "function GetReplicas(obj) if obj.spec.slow then while true do end end return 1 end"

    async def ask(**spec: Any) -> list[Any]:
        return await processes.call(script, "GetReplicas", [{"spec": spec}], returns=1, like_arguments=False)

    try:
        with pytest.raises(OutOfTime):
            await ask(slow=True)
        with pytest.raises(CannotInterpret, match="not run for 1 s"):
            await ask()
        await clock.advance(1.5)
        with pytest.raises(OutOfTime):
            await ask(slow=True)
        await clock.advance(1.5)
        with pytest.raises(CannotInterpret, match="not run for"):
            await ask()
        await clock.advance(1.5)
        assert await ask() == [1]
    finally:
        await processes.close()
