"""Pipelines written as functions, run by a real cluster."""

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.python.conftest import Cluster

import rota
from rota.client.verbs import Client as ApiClient
from rota.python.runs import PIPELINES

pytestmark = pytest.mark.slow

PATIENCE_S = 90.0


@rota.task
def split(count: int) -> list[str]:
    return [f"part {number} of $$(HOME)" for number in range(count)]


@rota.task
def upper(part: str) -> tuple[str, int]:
    return part.upper(), len(part)


@rota.task
def total(parts: list[tuple[str, int]], extra: Any = None) -> int:
    return sum(size for _, size in parts)


@rota.task
def fail(words: str) -> None:
    raise LookupError(f"no {words}")


@rota.task
def mark(path: str, text: str) -> None:
    Path(path).write_text(text)


@rota.task
def large(size: int) -> bytes:
    return b"x" * size


@rota.task
def measure(data: bytes) -> int:
    return len(data)


def test_a_pipeline_runs_and_its_value_comes_back(client: rota.Client, cluster: Cluster) -> None:
    @rota.pipeline
    def shout(count: int = 2) -> tuple[int, list[tuple[str, int]]]:
        parts = upper.each(split(count))
        return total(parts), parts

    run = shout.run(client, count=3)
    texts = [f"PART {number} OF $$(HOME)" for number in range(3)]
    assert run.result(PATIENCE_S) == (sum(map(len, texts)), [(text, len(text)) for text in texts])
    assert run.status == "Succeeded"
    assert [(one.step, one.index) for one in run.steps] == [
        ("split", None), ("total", None), ("upper", 0), ("upper", 1), ("upper", 2),
    ]  # fmt: skip
    assert run.graph().splitlines() == ["✔ split", "  ✔ upper  <- split", "    ✔ total  <- upper"]
    assert "<svg" in run._repr_html_()
    assert "succeeded" in cluster.rota("pipeline", "get", run.name).lower(), "it is a run as any other"


def test_what_is_submitted_as_a_file_is_the_same_object(client: rota.Client, cluster: Cluster, tmp_path: Path) -> None:
    @rota.pipeline(history_limit=3)
    def twice(count: int = 2) -> int:
        first = mark(str(tmp_path / "mark"), "begun")
        return total.step(when=rota.status_of(first) == "Succeeded")(upper.each(split(count)))

    async def stored(api: ApiClient) -> Any:
        return (await api.get(PIPELINES, "twice", namespace="default"))["spec"]

    twice.create(client)
    by_function = client.ask(stored)
    cluster.rota("delete", "pipelines", "twice")
    file = tmp_path / "twice.yaml"
    file.write_text(twice.to_yaml())
    cluster.rota("submit", str(file))
    assert client.ask(stored) == by_function
    cluster.rota("pipeline", "run", "twice", "--name", "by-hand", "-p", "count=1")
    assert rota.Run[int](client, "by-hand").result(PATIENCE_S) == len("part 0 of $$(HOME)")
    assert (tmp_path / "mark").read_text() == "begun"


def test_a_step_that_fails_ends_the_run_with_its_traceback(client: rota.Client, tmp_path: Path) -> None:
    told = tmp_path / "told"

    @rota.pipeline
    def doomed() -> None:
        fail("such thing")
        with rota.on_exit():
            mark(str(told), rota.run_status())

    run = doomed.run(client)
    with pytest.raises(
        rota.StepFailed, match=r"step fail of doomed-\w+ failed: .*LookupError: no such thing"
    ) as caught:
        run.result(PATIENCE_S)
    assert caught.value.step == "fail"
    assert 'raise LookupError(f"no {words}")' in str(caught.value.__cause__)
    assert told.read_text() == "Failed"


def test_large_values_go_through_the_shared_folder_or_not_at_all(client: rota.Client) -> None:
    @rota.pipeline(workspace=True)
    def wide(size: int) -> dict[str, Any]:
        data = large(size)
        return {"size": measure(data), "data": data}

    @rota.pipeline
    def narrow(size: int) -> int:
        return measure(large(size))

    # what runs of zeros comes to is small when it is packed, so this has to be large indeed
    fine, short = wide.run(client, size=9_000_000), narrow.run(client, size=9_000_000)
    assert fine.result(PATIENCE_S) == {"size": 9_000_000, "data": b"x" * 9_000_000}
    shutil.rmtree(Path(f"/var/tmp/rota-workspace-{client.ask(fine._get)['metadata']['uid']}"), ignore_errors=True)
    with pytest.raises(rota.StepFailed, match="give the pipeline workspace=True"):
        short.result(PATIENCE_S)


def test_a_run_can_be_cancelled_and_awaited(client: rota.Client) -> None:
    @rota.pipeline
    def endless() -> None:
        rota.task(time.sleep)(1000)

    run = endless.run(client)
    with pytest.raises(TimeoutError):
        run.wait(timeout=0.01)
    run.cancel()
    assert run.wait(PATIENCE_S) == "Cancelled"
    with pytest.raises(rota.RunCancelled):
        run.result(PATIENCE_S)

    async def waited() -> None:
        await rota.Run[None](client, run.name)

    with pytest.raises(rota.RunCancelled):
        asyncio.run(waited())
    with pytest.raises(rota.Deleted, match="there is no run nothing"):
        rota.Run[None](client, "nothing").wait()


def test_a_step_for_each_of_nothing_gives_nothing(client: rota.Client) -> None:
    @rota.pipeline
    def none(count: int = 0) -> int:
        return total(upper.each(split(count)))

    assert none.run(client).result(PATIENCE_S) == 0
