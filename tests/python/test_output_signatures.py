"""Outputs of steps are signed: a forged or foreign one is refused by the next step and by the client."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.python.conftest import Cluster

import rota
from rota.client.verbs import Client as ApiClient
from rota.python import task_runner
from rota.python.runs import _STEP_RUNS

PATIENCE_S = 90.0
KEY = "k" * 64


# --- what a step accepts, without a cluster ---------------------------------------------------------------------------


def _signed(text: str, *, scope: str = "run-1", step: str = "load", output: str = "result", index: str = "") -> str:
    return task_runner.sign_output(KEY, (scope, step, output), index, text)


def _read(text: str, proof: str, *, kind: str = "value", index: str = "") -> Any:
    """The value that a step reads; `Problem` if it refuses it."""
    given = task_runner._Given(
        {
            "ROTA_TASK": json.dumps({"name": "next", "parts": 0, "values": [kind], "signed": [0]}),
            "ROTA_TASK_KEY": KEY,
            "ROTA_SCOPE": "run-1",
            "ROTA_ITEM": index,
            "ROTA_VALUE_0": f"={text}",
            "ROTA_PROOF_0": proof,
        }
    )
    return given._value(0)


def test_a_step_reads_what_another_step_of_its_run_wrote() -> None:
    assert _read("5", f"load result run-1 {_signed('5')}") == 5
    signatures = json.dumps([_signed("1", index="0"), _signed("2", index="3")])
    assert _read('["1","2"]', f"load result run-1 {signatures}", kind="values") == [1, 2]
    listed = '["7","8"]'
    assert _read("8", f"load items run-1 {_signed(listed, output='items')} {listed}", index="1") == 8
    assert _read("3", "   ") == 3, "a constant of the pipeline has no signature"


@pytest.mark.parametrize(
    "proof",
    [
        "load result run-1 ",
        "load result run-1 :forged",
        "load result run-1 ☃",
        f"load result run-1 {_signed('6')}",
        f"load result run-1 {_signed('5', scope='run-2')}",
        f"load result run-1 {_signed('5', step='other')}",
        f"load result run-1 {_signed('5', output='items')}",
        f"load result run-1 {task_runner.sign_output('another key', ('run-1', 'load', 'result'), '', '5')}",
    ],
    ids=["none", "forged", "no text", "of another value", "run", "step", "output", "key"],
)
def test_a_forged_or_foreign_output_is_refused(proof: str) -> None:
    with pytest.raises(
        task_runner.Problem, match="output result of step load was not written by that step of this run"
    ):
        _read("5", proof)


def test_outputs_of_items_cannot_be_exchanged_or_repeated() -> None:
    first, second = _signed("1", index="0"), _signed("2", index="1")
    for texts, signatures in (
        (["2", "1"], [first, second]),
        (["2", "1"], [second, first]),
        (["1", "1"], [first, first]),
        (["1", "2"], [first]),
        (["1"], "no list"),
    ):
        with pytest.raises(task_runner.Problem, match="its signature is wrong"):
            _read(json.dumps(texts), f"load result run-1 {json.dumps(signatures)}", kind="values")
    listed = '["7","8"]'
    for index in ("0", "2", ""):
        with pytest.raises(task_runner.Problem, match="its signature is wrong"):
            _read("8", f"load items run-1 {_signed(listed, output='items')} {listed}", index=index)


def test_an_output_that_runs_share_is_that_of_any_run_and_item() -> None:
    shared = _signed("5", scope=task_runner.ANY_RUN, index="4")
    assert _read("5", f"load result {task_runner.ANY_RUN} {shared}") == 5
    with pytest.raises(task_runner.Problem):
        _read("5", f"load result run-1 {shared}")


# --- in a cluster -----------------------------------------------------------------------------------------------------


@rota.task
def load(number: int) -> tuple[int, ...]:
    return tuple(range(number))


@rota.task
def each_of(number: int) -> tuple[int, int]:
    return number, number * number


@rota.task
def squares(pairs: list[tuple[int, int]]) -> dict[int, int]:
    return dict(pairs)


@rota.task
def stop(values: tuple[int, ...]) -> int:
    raise LookupError(f"found {values}")


def _changed(client: rota.Client, name: str, change: Callable[[dict[str, str]], Mapping[str, str]]) -> dict[str, str]:
    """Change the outputs of a step run as a user may who can write its status; returns the former ones."""

    async def act(api: ApiClient) -> dict[str, str]:
        found = await api.get(_STEP_RUNS, name, namespace="default")
        former = dict(found["status"]["outputs"])
        patch = {"status": {"outputs": dict(change(former))}}
        await api.patch(_STEP_RUNS, name, patch, namespace="default", subresource="status")
        return former

    return client.ask(act)


@pytest.mark.slow
def test_a_client_refuses_a_result_that_no_step_of_the_run_wrote(client: rota.Client, cluster: Cluster) -> None:
    @rota.pipeline(name="signed")
    def signed(number: int = 3) -> tuple[dict[int, int], tuple[int, ...]]:
        return squares(each_of.each(load(number))), load.step(cache=True, name="kept")(number)

    one, other = signed.run(client), signed.run(client, number=4)
    assert one.result(PATIENCE_S) == ({0: 0, 1: 1, 2: 4}, (0, 1, 2))
    assert other.result(PATIENCE_S) == ({0: 0, 1: 1, 2: 4, 3: 9}, (0, 1, 2, 3))
    again = signed.run(client)
    assert again.result(PATIENCE_S) == one.result()
    assert "Cached" in {step.status for step in again.steps if step.step == "kept"}, "a reused output is verified, too"

    foreign = _changed(client, f"{other.name}-squares", lambda former: former)
    former = _changed(client, f"{one.name}-squares", lambda _: foreign)
    with pytest.raises(rota.NoResult, match=rf"{one.name}-squares was not written by step squares of {one.name}"):
        one.result()
    _changed(client, f"{one.name}-squares", lambda _: {**former, "result": task_runner.write(("forged",))})
    with pytest.raises(rota.NoResult, match="its signature is wrong"):
        one.result()
    _changed(client, f"{one.name}-squares", lambda _: former)
    assert one.result() == ({0: 0, 1: 1, 2: 4}, (0, 1, 2))
    cluster.rota("delete", "pipelines", "signed")


@pytest.mark.slow
def test_a_step_refuses_an_output_that_was_forged(client: rota.Client, cluster: Cluster) -> None:
    @rota.pipeline(name="stopped")
    def stopped() -> int:
        return stop(load(2))

    run = stopped.run(client)
    with pytest.raises(rota.StepFailed, match=r"found \(0, 1\)"):
        run.result(PATIENCE_S)
    _changed(client, f"{run.name}-load", lambda former: {**former, "result": task_runner.write((6, 6))})
    run.retry()
    with pytest.raises(rota.StepFailed, match="output result of step load was not written by that step of this run"):
        run.result(PATIENCE_S)
    cluster.rota("delete", "pipelines", "stopped")
