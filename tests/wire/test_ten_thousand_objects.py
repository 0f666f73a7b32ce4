"""A collection that clients read in pages."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from rota.testing import manifests
from rota.testing.api import ApiServer
from rota.testing.kubectl import Kubectl
from rota.testing.live import LiveServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 10_000
NAMES = [f"c{number:05}" for number in range(COUNT)]


@pytest.fixture(scope="module")
def full(live: LiveServer) -> str:
    """A namespace with ten thousand config maps."""
    namespace = live.namespace()
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    async def fill(api: ApiServer) -> None:
        for start in range(0, COUNT, 500):
            answers = await asyncio.gather(
                *(api.post(path, manifests.config_map(name, a="1")) for name in NAMES[start : start + 500])
            )
            assert {answer.code for answer in answers} == {201}

    live.call(fill, patience_s=600)
    return namespace


def test_kubectl_reads_them_in_chunks(live: LiveServer, full: str, kubectl_program: Path, kubectl_home: Path) -> None:
    kubectl = Kubectl(kubectl_program, url=live.url, namespace=full, home=kubectl_home)
    done = kubectl.run("get", "configmaps", "--output=name", "--v=7")
    assert done.out.split() == [f"configmap/{name}" for name in NAMES]
    # an address may be told twice: when it is asked, and when that had to wait
    assert len(set(re.findall(r"http://[^\s\"]*limit=500[^\s\"]*", done.err))) == COUNT // 500


def test_kubectl_prints_them_as_one_table(
    live: LiveServer, full: str, kubectl_program: Path, kubectl_home: Path
) -> None:
    kubectl = Kubectl(kubectl_program, url=live.url, namespace=full, home=kubectl_home)
    rows = kubectl("get", "configmaps", "--no-headers").splitlines()
    assert [row.split()[0] for row in rows] == NAMES


@pytest.fixture
def core(live: LiveServer) -> Iterator[Any]:
    with kubernetes.client.ApiClient(kubernetes.client.Configuration(host=live.url)) as client:
        yield kubernetes.client.CoreV1Api(client)
        client.rest_client.pool_manager.clear()


def test_pages_show_one_moment_while_others_write(live: LiveServer, full: str, core: Any) -> None:
    names, proceed, remaining = [], None, []
    path = f"/api/v1/namespaces/{full}/configmaps"
    while True:
        answer = core.list_namespaced_config_map(full, limit=1000, _continue=proceed, _preload_content=False)
        page = json.loads(answer.data)
        names += [item["metadata"]["name"] for item in page["items"]]
        remaining.append(page["metadata"].get("remainingItemCount", 0))
        # one comes and one that is still to be shown goes, with every page
        late = NAMES[-len(remaining)]
        live.create(path, manifests.config_map(f"c-new-{len(remaining)}"))
        assert live.request("DELETE", f"{path}/{late}")[0] == 200
        proceed = page["metadata"].get("continue")
        if not proceed:
            break
    for number in range(1, len(remaining) + 1):
        live.request("DELETE", f"{path}/c-new-{number}")
        live.create(path, manifests.config_map(NAMES[-number], a="1"))
    assert names == NAMES
    assert remaining == [COUNT - 1000 * page for page in range(1, 11)]


def test_a_watch_begins_with_all_of_them(live: LiveServer, full: str, core: Any) -> None:
    watches: Any = kubernetes.watch
    watch = watches.Watch()
    seen = 0
    for event in watch.stream(core.list_namespaced_config_map, full, timeout_seconds=60, _preload_content=False):
        assert event["type"] == "ADDED"
        seen += 1
        if seen == COUNT:
            watch.stop()
    assert seen == COUNT
