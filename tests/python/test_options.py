"""What a task asks for, and the objects that say so."""

from typing import Any, cast

import pytest

import rota
from rota.python import manifests, serialization
from rota.python.options import Options
from rota.python.serialization import Packed


@rota.task(
    cpu=0.5,
    memory="1Gi",
    gpu=1,
    env={"LEVEL": "a$b", "TOKEN": rota.from_secret("vault", "token")},
    retries=3,
    timeout=90,
    priority="high",
    queue="night",
    node_selector={"disk": "ssd"},
    labels={"team": "a"},
    python="ml",
    workdir="/srv",
)
def add(left: int, right: int) -> int:
    return left + right


def _job(options: Options) -> dict[str, Any]:
    packed = Packed(name="add", content=serialization.pack(add.function, (1, 2), {}, name="add"))
    made: Any = manifests.job("add-1", "default", packed, options, session="s", parts=1)
    return dict(made)


def test_a_task_is_still_the_function_that_it_was() -> None:
    assert (add(1, 2), add.__name__, repr(add)) == (3, "add", "<rota.task add>")


def test_what_is_asked_for_stands_in_the_job() -> None:
    job = _job(add.task_options)
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert job["spec"]["backoffLimit"] == 3
    assert job["metadata"]["labels"] == {"team": "a", "rota.dev/session": "s"}
    assert pod["activeDeadlineSeconds"] == 90
    assert (pod["priorityClassName"], pod["nodeSelector"]) == ("high", {"disk": "ssd"})
    assert container["resources"] == {
        "requests": {"cpu": "0.5", "memory": "1Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"},
    }
    assert container["command"][-1] == "ml"
    assert container["workingDir"] == "/srv"
    assert container["env"][:2] == [
        {"name": "LEVEL", "value": "a$$b"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "token"}}},
    ]


def test_nothing_of_the_call_stands_in_the_job() -> None:
    def greet(word: str) -> str:
        return word

    packed = Packed(name="greet", content=serialization.pack(greet, ("a password",), {}, name="greet"))
    job = manifests.job("greet-1", "default", packed, Options(), session="s", parts=len(packed.parts()))
    secret = manifests.secret("greet-1", "default", packed, Options(), session="s", key="k", file="", results="/r")
    assert packed.parts()[0] in secret["stringData"].values()
    assert packed.parts()[0] not in str(job)


def test_options_can_be_changed_for_one_call() -> None:
    assert add.options(cpu=2).task_options.cpu == 2
    assert add.task_options.cpu == 0.5
    assert add.options(cpu=2).task_options.memory == "1Gi"


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"cpu": "many"}, "cpu='many' is no amount; write 2, 0.5"),
        ({"cpu": 0}, "cpu=0 is no amount"),
        ({"memory": "1 GB"}, "memory='1 GB' is no amount"),
        ({"retries": -1}, "retries=-1 is no number of retries"),
        ({"gpu": 1.5}, "gpu=1.5 is no number of gpu"),
        ({"timeout": 0}, "timeout=0 is no time"),
        ({"env": {"a b": "c"}}, "env: 'a b' is no name for a variable"),
        ({"env": {"ROTA_TASK_1": "c"}}, "env: 'ROTA_TASK_1' is no name"),
        ({"env": {"A": 1}}, "env: A=1 is no text"),
        ({"name": "Not A Name"}, "name='Not A Name'"),
        ({"python": "../x"}, "python='../x' is neither a path nor the name"),
        ({"cpus": 2}, "a task has no option cpus; there are cpu, memory"),
    ],
)
def test_an_option_that_cannot_be_is_refused_where_it_is_written(wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(rota.OptionError) as caught:
        rota.task(**wishes)
    assert said in str(caught.value)


def test_a_method_is_no_task() -> None:
    class Machine:
        @rota.task
        def run(self) -> None: ...

    with pytest.raises(TypeError, match="run is a method: make a function of it"):
        cast("Any", Machine()).run()
