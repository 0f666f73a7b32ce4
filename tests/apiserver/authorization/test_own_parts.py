"""The components of a control plane have the permissions that they need: none of their requests is refused."""

import asyncio
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from rota import control_plane
from rota.kit import system
from rota.store import store_factory
from rota.testing import manifests

_TRIES = 1000
_SHOP = "/api/v1/namespaces/shop"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


class _Administrator:
    """A user who may do everything, over plain HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __call__(self, method: str, path: str, body: Any = None) -> str:
        return await asyncio.to_thread(self._send, method, path, body)

    def _send(self, method: str, path: str, body: Any) -> str:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"content-type": "application/json"}
        asked = urllib.request.Request(f"{self._url}{path}", method=method, data=data, headers=headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    async def until(self, path: str, what: str, *, there: bool = True) -> None:
        """Wait until a response shows something, or no longer does."""
        for _ in range(_TRIES):
            if (what in await self("GET", path)) is there:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{path} shows {what!r}: {not there}")


@pytest.mark.slow
async def test_no_part_is_refused_anything_while_a_cluster_works(tmp_path: Path) -> None:
    store = await store_factory.open_store("memory://", time=system.SystemClock(), rng=system.rng())
    settings = control_plane.Settings(data=tmp_path, port=0, http_port=0)
    async with control_plane.running(store, settings) as facts:
        do = _Administrator(facts["http"])
        await do("POST", "/api/v1/nodes", manifests.node("n", zone="a"))
        await do("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        # by the controller of service accounts, and by the scheduler
        await do.until(f"{_SHOP}/serviceaccounts", '"default"')
        await do.until(f"{_SHOP}/configmaps", '"kube-root-ca.crt"')
        owner = json.loads(await do("POST", f"{_SHOP}/pods", manifests.pod("p")))
        await do.until(f"{_SHOP}/pods/p", '"nodeName":"n"')
        # by the garbage collector
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["metadata"]["uid"]}
        owned = {"metadata": {"name": "c", "ownerReferences": [reference]}}
        await do("POST", f"{_SHOP}/configmaps", owned)
        await do("DELETE", f"{_SHOP}/pods/p?gracePeriodSeconds=0")
        await do.until(f"{_SHOP}/configmaps", '"name":"c"', there=False)
        # by the controllers of roles and of namespaces
        label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        rules = [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]
        await do("POST", _ROLES, {"metadata": {"name": "w", "labels": label}, "rules": rules})
        await do.until(f"{_ROLES}/view", '"widgets"')
        await do("DELETE", _SHOP)
        await do.until("/api/v1/namespaces", '"name":"shop"', there=False)
        figures = (await do("GET", "/metrics")).splitlines()
    await store.close()
    assert [line for line in figures if re.search(r'requests_total\{.*code="201"', line)]
    assert [line for line in figures if re.search(r'requests_total\{.*code="40[13]"', line)] == []
