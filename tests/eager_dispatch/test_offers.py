"""What a worker does with pods that are offered to it ahead of its watch."""

from pathlib import Path
from typing import Any

import pytest
from tests.worker.endpoint.harness import Endpoint, until

from rota.api import errors
from rota.client import pods as pod_calls
from rota.client.pods import Binding
from rota.client.verbs import Client
from rota.worker import agent
from rota.worker.agent import PODS

pytestmark = pytest.mark.slow


async def waiting_pod(client: Client, *command: str, name: str = "p", **spec: Any) -> dict[str, Any]:
    """A pod without a node."""
    container = {"name": "c", "image": "i", "command": list(command)}
    metadata = {"name": name, "namespace": "default"}
    made = {"restartPolicy": "Never", "containers": [container], **spec}
    return await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made})


def on(pod: dict[str, Any], node: str = "w1") -> dict[str, Any]:
    """The pod as a leader pushes it."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


async def bind(client: Client, pod: dict[str, Any]) -> None:
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    await pod_calls.bind(client, Binding(namespace="default", pod=name, node="w1", uid=uid))


async def until_phase(client: Client, phase: str, name: str = "p") -> None:
    async def so() -> bool:
        return bool((await client.get(PODS, name, namespace="default"))["status"]["phase"] == phase)

    await until(so)


async def until_there(path: Path) -> None:
    async def so() -> bool:
        return path.exists()

    await until(so)


async def test_an_offered_pod_runs_before_the_watch_shows_it_and_runs_once(
    client: Client, endpoint: Endpoint, tmp_path: Path
) -> None:
    worker, ran = endpoint.worker, tmp_path / "ran"
    pod = await waiting_pod(client, "sh", "-c", f"echo x >> {ran}")
    assert worker.offer(worker.incarnation, [on(pod)]) == [""]
    await until_there(ran)
    assert worker.offer(worker.incarnation, [on(pod)]) == ["it is here"]
    await bind(client, pod)
    await until_phase(client, "Succeeded")
    assert worker.offer(worker.incarnation, [on(pod)]) == ["it is here"]
    assert ran.read_text() == "x\n"


async def test_a_late_offer_of_a_pod_that_is_gone_starts_nothing(
    client: Client, endpoint: Endpoint, tmp_path: Path
) -> None:
    worker, ran = endpoint.worker, tmp_path / "ran"
    pod = await waiting_pod(client, "sh", "-c", f"echo x >> {ran}")
    await bind(client, pod)
    await until_phase(client, "Succeeded")
    await client.delete(PODS, "p", namespace="default", grace_period_s=0)

    async def forgotten() -> bool:
        return worker.agent.machine.pod(pod["metadata"]["uid"]) is None

    await until(forgotten)
    assert worker.offer(worker.incarnation, [on(pod)]) == ["it is gone"]
    # Something else from its beginning to its end: had anything been started, it would have been meanwhile.
    other = await waiting_pod(client, "true", name="other")
    await bind(client, other)
    await until_phase(client, "Succeeded", "other")
    assert ran.read_text() == "x\n"


async def test_an_offered_pod_that_the_api_does_not_have_is_let_go(
    client: Client, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "_SHOWN_S", 0.1)
    worker, began = endpoint.worker, tmp_path / "began"
    pod = await waiting_pod(client, "sh", "-c", f"touch {began}; exec sleep 300", terminationGracePeriodSeconds=1)
    uid = pod["metadata"]["uid"]
    assert worker.offer(worker.incarnation, [on(pod)]) == [""]
    await client.delete(PODS, "p", namespace="default", grace_period_s=0)

    async def forgotten() -> bool:
        return worker.agent.machine.pod(uid) is None and not worker.runtime.places()

    await until(forgotten)
    assert uid not in worker.agent._offered


async def test_what_is_meant_for_others_is_not_taken(client: Client, endpoint: Endpoint) -> None:
    worker = endpoint.worker
    pod = await waiting_pod(client, "true")
    assert worker.offer(worker.incarnation, [on(pod, "w2"), pod]) == ["it is not bound to this node"] * 2
    with pytest.raises(errors.Conflict, match="not incarnation before of w1"):
        worker.offer("before", [on(pod)])
    assert worker.agent.machine.pod(pod["metadata"]["uid"]) is None


async def test_no_dispatch_is_accepted_before_the_watch_is_synced(client: Client, endpoint: Endpoint) -> None:
    pod = await waiting_pod(client, "true")
    worker = endpoint.worker
    # The one that takes over when the runtime fails: it does not know what the one before let go.
    before = worker.runtime, worker.agent
    worker._renew(offers_after_s=10.0)
    (said,) = worker.offer(worker.incarnation, [on(pod)])
    worker.runtime, worker.agent = before
    assert said == "the watch is behind, so that it cannot be told what is new"
