"""Functions sent to a real cluster: what comes back, whatever became of them."""

import asyncio
import concurrent.futures
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from tests.python.conftest import Cluster
from tests.worker.runtimes.bench import needs_containers

import rota
from rota.python import sessions, task_runner

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
RESULTS = Path(f"/var/tmp/rota-results-{os.getuid()}")


class OwnError(Exception):
    def __init__(self, place: str, code: int) -> None:
        super().__init__(f"{place}: {code}")
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return OwnError, ("a place", self.code)


def add(left: int, right: int = 1) -> int:
    sys.stdout.write(f"adding {left} and {right}\n")
    return left + right


def fail(code: int) -> NoReturn:
    raise OwnError("a place", code)


def test_a_function_runs_in_the_cluster_and_its_result_comes_back(client: rota.Client) -> None:
    future = client.submit(add, 1, right=41)
    assert future.result(PATIENCE_S) == 42
    assert (future.status, future.node.startswith("worker-"), future.done()) == ("succeeded", True, True)
    assert future.logs() == "adding 1 and 41\n"
    assert future.traceback is None


def test_what_a_function_raises_is_raised_here_with_the_far_sides_traceback(client: rota.Client) -> None:
    future = client.submit(fail, 7)
    with pytest.raises(OwnError, match="a place: 7") as caught:
        future.result(PATIENCE_S)
    assert caught.value.code == 7
    assert isinstance(caught.value.__cause__, rota.RemoteTraceback)
    assert 'raise OwnError("a place", code)' in (future.traceback or "")
    assert "bootstrap" not in (future.traceback or ""), "the user's own frames only"
    assert future.status == "failed"


def test_values_of_any_type_and_size_come_back(client: rota.Client) -> None:
    values = [(1, {2}), b"x" * 300_000, float("inf"), None, {"a": [1, 2.5, "ü"]}]
    futures = client.map(lambda number: values[number], range(len(values)))
    assert [one.result(PATIENCE_S) for one in futures] == values


def test_a_virtual_environment_can_be_named(client: rota.Client) -> None:
    there = rota.task(python=sys.prefix)(lambda: sys.prefix)
    assert client.submit(there).result(PATIENCE_S) == sys.prefix


def test_arguments_that_are_too_large_for_the_store_go_through_a_folder(client: rota.Client) -> None:
    future = client.submit(rota.task(durable=True)(len), os.urandom(700_000))
    assert future.result(PATIENCE_S) == 700_000
    assert not list(RESULTS.glob(f"{future.name}*")), "nobody needs them any more"


def test_results_of_other_machines_are_fetched(
    client: rota.Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_here(path: str, digest: str) -> bytes:
        raise task_runner.Missing(f"{path} is on another machine")

    data = os.urandom(200_000)
    monkeypatch.setattr(task_runner, "content", not_here)
    future = client.submit(rota.task(durable=True)(lambda: data))
    assert future.result(PATIENCE_S) == data
    assert list(RESULTS.glob(f"{future.name}*"))
    future.release()
    assert not list(RESULTS.glob(f"{future.name}*"))
    with rota.Client(cluster.kubeconfig) as other, pytest.raises(rota.Deleted):
        other.future(future.name)


@needs_containers
def test_a_task_may_run_in_a_container(client: rota.Client) -> None:
    # the machine's own files are as good an image as any, and have a Python
    boxed = rota.task(image="/", python=sys.executable, durable=True)
    small = client.submit(boxed(os.getpid))
    large = client.submit(boxed(os.urandom), 9000)
    assert small.result(PATIENCE_S) == 1, "it has processes of its own"
    assert len(large.result(PATIENCE_S)) == 9000
    large.release()


def test_a_task_may_call_other_tasks_as_the_functions_that_they_are(client: rota.Client) -> None:
    @rota.task
    def inner(number: int) -> int:
        return number * 2

    @rota.task(python=sys.executable)
    def outer(number: int) -> tuple[int, bool]:
        return inner(number), any(name.startswith("rota.") for name in sys.modules)

    assert client.submit(outer, 4).result(PATIENCE_S) == (8, False)


@pytest.mark.parametrize("durable", [False, True])
def test_ends_that_are_no_returns_have_types(client: rota.Client, durable: bool) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def dawdle() -> None:
        time.sleep(60)

    def swell() -> int:
        return len(b"x" * 200_000_000)

    def there(function: Callable[..., Any], **options: Any) -> rota.Task[..., Any]:
        return rota.task(function).options(durable=durable, **options)

    futures: list[rota.Future[Any]] = [
        client.submit(there(die)),
        client.submit(there(sys.exit), 0),
        client.submit(there(dawdle, timeout=1)),
        client.submit(there(add, python="nowhere"), 1),
        client.submit(there(threading.Lock)),
        client.submit(there(swell, memory="48Mi")),
    ]
    problems = [one.exception(PATIENCE_S) for one in futures]
    kinds = (rota.TaskDied, rota.NoResult, rota.TimedOut, rota.WrongEnvironment, rota.NoResult, rota.TaskDied)
    assert [type(one) if isinstance(one, kind) else one for one, kind in zip(problems, kinds, strict=True)] == [
        type(one) for one in problems
    ]
    said = [str(one) for one in problems]
    assert "by SIGKILL" in said[0]
    assert "its function called sys.exit(0)" in said[1]
    assert "there is no Python at /opt/rota/environments/nowhere" in said[3]
    assert "cannot pickle '_thread.lock' object" in said[4]


@pytest.mark.parametrize("durable", [False, True])
def test_a_task_can_be_cancelled_while_it_runs(
    client: rota.Client, cluster: Cluster, tmp_path: Path, durable: bool
) -> None:
    mark = tmp_path / "pid"

    def wait() -> None:
        mark.write_text(str(os.getpid()))
        time.sleep(1000)

    future = client.submit(rota.task(durable=durable)(wait))
    _until(lambda: mark.exists() and bool(mark.read_text()))
    told: list[str] = []
    future.add_done_callback(lambda one: told.append(one.name))  # type: ignore[attr-defined] # it is ours
    assert future.cancel()
    assert (future.status, told) == ("cancelled", [future.name])
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(0)
    _until(lambda: not Path("/proc", mark.read_text()).exists())
    _until(lambda: future.name not in cluster.rota("get", "jobs", "-o", "name"))


def test_what_fails_and_what_is_lost_is_done_again(client: rota.Client, cluster: Cluster, tmp_path: Path) -> None:
    marks, losses = tmp_path / "marks", tmp_path / "losses"

    def counted(path: Path) -> int:
        with path.open("a") as file:
            file.write("x")
        return len(path.read_text())

    @rota.task(retries=2)
    def flaky() -> int:
        number = counted(marks)
        if number == 1:
            raise OSError("not yet")
        return number

    def slow() -> int:
        number = counted(losses)
        if number == 1:
            time.sleep(1000)
        return number

    failing, lost = client.submit(flaky), client.submit(slow)
    _until(lambda: losses.exists() and lost.status == "running")
    node = lost.node
    cluster.rota("drain", node, "--force", "--grace-period", "1")
    try:
        assert lost.result(PATIENCE_S) == 2
        assert failing.result(PATIENCE_S) == 2
    finally:
        cluster.rota("uncordon", node)


def test_a_future_can_be_found_again_by_another_client(client: rota.Client, cluster: Cluster) -> None:
    future = client.submit(rota.task(durable=True)(add), 20, 3)
    with rota.Client(cluster.kubeconfig) as other:
        again = other.future(future.name)
        assert (again.result(PATIENCE_S), again.function) == (23, "add")
        assert other.future(future.name) is again
        with pytest.raises(rota.Deleted, match="there is no task nothing"):
            other.future("nothing")


def test_futures_can_be_awaited(cluster: Cluster) -> None:
    async def work() -> list[int]:
        async with rota.AsyncClient(cluster.kubeconfig) as client:
            one = await client.submit(add, 1)
            more = await client.map(add, [10, 20])
            return await asyncio.gather(one, *more)

    assert asyncio.run(work()) == [2, 11, 21]


def test_tasks_use_the_client_of_the_block_that_they_are_in(client: rota.Client, cluster: Cluster) -> None:
    task = rota.task(add)
    with rota.Client(cluster.kubeconfig) as inner:
        mine = task.submit(1)
        assert inner.future(mine.name) is mine
    assert client.future((yours := task.submit(2)).name) is yours
    assert rota.results([*task.map([1, 2]), yours]) == [2, 3, 3]


def test_a_client_that_is_closed_says_so(cluster: Cluster) -> None:
    with rota.Client(cluster.kubeconfig, durable=True) as client:
        future = client.submit(time.sleep, 1000)
        assert "closed" not in repr(client)
    assert "closed" in repr(client)
    with pytest.raises(RuntimeError, match=f"client.future\\('{future.name}'\\) finds it again"):
        future.result(0)
    with pytest.raises(RuntimeError, match="this client is closed"):
        client.submit(add, 1)
    with rota.Client(cluster.kubeconfig) as other:
        assert other.future(future.name).cancel()


def test_what_was_not_sent_yet_is_sent_before_a_client_is_closed(cluster: Cluster) -> None:
    with rota.Client(cluster.kubeconfig, durable=True) as client:
        futures = client.map(add, range(40))
    with rota.Client(cluster.kubeconfig) as other:
        last = other.future(futures[-1].name)
        assert last.result(PATIENCE_S) == 40
        for future in futures:
            other.future(future.name).release()


def test_news_that_cannot_come_are_not_waited_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> NoReturn:
        raise OSError("no news")

    with rota.Client(cluster.kubeconfig) as client:
        with monkeypatch.context() as patched:
            patched.setattr(sessions.Session, "_following", broken)
            with pytest.raises(OSError, match="no news"):
                client.submit(add, 1)
        assert client.submit(add, 1).result(PATIENCE_S) == 2


def test_notebooks_show_tasks_and_nothing_that_they_say_is_markup(client: rota.Client) -> None:
    def fail() -> None:
        raise ValueError("<script>alert(1)</script>")

    future = client.submit(fail)
    future.exception(PATIENCE_S)
    assert "&lt;script&gt;" in future._repr_html_()
    assert "<script>" not in future._repr_html_()
    assert client.server in client._repr_html_()


def test_the_client_works_where_a_loop_runs_already(cluster: Cluster) -> None:
    async def cell() -> int:
        with rota.Client(cluster.kubeconfig) as client:
            return client.submit(add, 1).result(PATIENCE_S)

    assert asyncio.run(cell()) == 2


def test_an_executor_takes_a_pools_place(client: rota.Client) -> None:
    with rota.Executor(client, cpu=0.1) as pool:
        assert list(pool.map(add, [1, 2], [3, 4], timeout=PATIENCE_S)) == [4, 6]
        futures = [pool.submit(add, number) for number in range(3)]
        done, _ = concurrent.futures.wait(futures, PATIENCE_S)
        assert {one.result() for one in done} == {1, 2, 3}
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(add, 1)


def test_leaving_the_client_by_an_exception_cancels_its_tasks(cluster: Cluster) -> None:
    futures: list[rota.Future[None]] = []

    def leave() -> NoReturn:
        with rota.Client(cluster.kubeconfig) as client:
            futures.append(client.submit(time.sleep, 1000))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    assert futures[0].status == "cancelled"
    _until(lambda: futures[0].name not in cluster.rota("get", "jobs", "-o", "name"))


def test_a_script_that_is_interrupted_leaves_nothing(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import time
        import rota

        @rota.task
        def stay(seconds):
            time.sleep(seconds)

        future = stay.submit(1000)
        print(future.name, flush=True)
        future.result()
        """)
    )
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    with subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    _until(lambda: name not in cluster.rota("get", "jobs", "-o", "name"))


def test_a_task_that_waits_says_for_what(client: rota.Client) -> None:
    future = client.submit(rota.task(cpu=1000)(add), 1)
    _until(lambda: bool(future.why))
    with pytest.raises(TimeoutError, match=r"is still pending: 0/2 nodes are available: 2 Insufficient cpu"):
        future.result(timeout=0.01)
    with pytest.raises(TimeoutError, match="is still pending"):
        future.exception(timeout=0)
    future.cancel()


def test_when_nothing_runs_it_is_said_once_what_is_waited_for(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_PATIENCE_S", 0.1)
    caplog.set_level(logging.WARNING)
    with rota.Client(cluster.kubeconfig) as own:
        futures = [own.submit(rota.task(cpu=1000, durable=True)(add), 1)]
        _until(lambda: bool(caplog.messages))
        assert "still waits: 0/2 nodes are available: 2 Insufficient cpu" in caplog.messages[0]
        assert "rota explain pod add-" in caplog.messages[0]
        for future in futures:
            future.cancel()
        assert own.submit(add, 1).result(PATIENCE_S) == 2
    assert len(caplog.messages) == 1


def test_a_timeout_of_the_functions_own_is_raised_as_it_is(client: rota.Client) -> None:
    def late() -> NoReturn:
        raise TimeoutError("of its own")

    future = client.submit(late)
    with pytest.raises(TimeoutError, match="of its own"):
        future.result(PATIENCE_S)
    assert "raise TimeoutError" in (future.traceback or "")


def test_what_the_cluster_refuses_is_said_where_it_is_asked(client: rota.Client) -> None:
    wanted = rota.task(priority="no-such-class", labels={"a": "not a label!"})(add)
    with pytest.raises(rota.Refused, match="labels"):
        client.submit(wanted, 1)
    problem = client.map(wanted, [1])[0].exception(PATIENCE_S)
    assert isinstance(problem, rota.Refused)


def test_editors_may_submit_and_others_are_refused_at_once(cluster: Cluster, tmp_path: Path) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "ann", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    (tmp_path / "binding.yaml").write_text(yaml.safe_dump(binding))
    cluster.rota("submit", str(tmp_path / "binding.yaml"))
    files = {}
    for user in ("ann", "bob"):
        content = yaml.safe_load(cluster.kubeconfig.read_text())
        content["users"][0]["user"]["as"] = user
        files[user] = tmp_path / user
        files[user].write_text(yaml.safe_dump(content))
    with rota.Client(files["ann"]) as ann:
        assert ann.submit(add, 1).result(PATIENCE_S) == 2
        future = ann.submit(rota.task(durable=True)(add), 1)
        assert future.result(PATIENCE_S) == 2
        with rota.Client(files["ann"]) as again:
            assert again.future(future.name).result(PATIENCE_S) == 2
    with rota.Client(files["bob"]) as bob, pytest.raises(rota.Refused, match='User "bob" cannot'):
        bob.submit(add, 1)


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with pytest.raises(rota.NotReachable, match=r"http://127\.0\.0\.1:9 does not answer"):
        rota.Client(server="http://127.0.0.1:9")


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class TwoArguments(Exception):
    """Its constructor takes what `args` does not hold."""

    def __init__(self, where: str, code: int) -> None:
        super().__init__(f"{where} failed with {code}")
        self.where, self.code = where, code
        self.lock = threading.Lock()  # cannot be sent


class FileGone(OSError):
    def __init__(self, path: str, *, hint: str) -> None:
        super().__init__(2, "gone", path)
        self.hint = hint


def test_exceptions_arrive_as_what_they_were_whatever_their_constructors_take(client: rota.Client) -> None:
    def fail(kind: str) -> None:
        raise TwoArguments("disk", 7) if kind == "two" else FileGone("/x", hint="look elsewhere")

    with pytest.raises(TwoArguments, match="disk failed with 7") as two:
        client.submit(fail, "two").result(PATIENCE_S)
    assert (two.value.where, two.value.code) == ("disk", 7)
    assert isinstance(two.value.__cause__, rota.RemoteTraceback)
    with pytest.raises(FileGone) as gone:
        client.submit(fail, "gone").result(PATIENCE_S)
    assert (gone.value.errno, gone.value.filename, gone.value.hint) == (2, "/x", "look elsewhere")


def test_a_wait_that_is_too_short_is_not_a_task_that_took_too_long(client: rota.Client) -> None:
    @rota.task(timeout=1)
    def slow() -> None:
        time.sleep(60)

    future = client.submit(slow)
    with pytest.raises(rota.NotDone, match="is still"):
        future.result(timeout=0.01)
    with pytest.raises(rota.TimedOut) as ended:
        future.result(PATIENCE_S)
    assert not isinstance(ended.value, TimeoutError)


def test_the_first_retry_comes_soon_and_can_be_delayed(client: rota.Client, tmp_path: Path) -> None:
    @rota.task(retries=3)
    def third_time(folder: str) -> list[float]:
        Path(folder, str(time.time())).touch()
        tries = sorted(float(one.name) for one in Path(folder).iterdir())
        if len(tries) < 3:
            raise RuntimeError("again")
        return tries

    (tmp_path / "tries").mkdir()
    first, second, third = client.submit(third_time, str(tmp_path / "tries")).result(PATIENCE_S)
    assert second - first < 6.0
    assert third - second > 1.5, "the delay grows"


def test_a_call_whose_result_was_fetched_is_removed_soon(client: rota.Client, cluster: Cluster) -> None:
    def ttl(name: str) -> int:
        return int(json.loads(cluster.rota("get", "job", name, "-o", "json"))["spec"]["ttlSecondsAfterFinished"])

    durable = rota.task(durable=True)(add)
    fetched, kept = client.submit(durable, 1), client.submit(durable.options(keep=600), 1)
    assert (fetched.result(PATIENCE_S), kept.result(PATIENCE_S)) == (add(1), add(1))
    deadline = time.monotonic() + PATIENCE_S
    while ttl(fetched.name) > 60:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ttl(kept.name) == 600
    assert fetched.logs() == "adding 1 and 1\n", "there is still time for its logs"
