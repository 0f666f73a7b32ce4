"""Paths of proxied requests; what passes through a running proxy is in tests/federation/live/test_proxy.py."""

from types import SimpleNamespace
from typing import cast

import pytest

from rota.api import errors
from rota.apiserver.interfaces import Registry, SubresourceRequest
from rota.cluster_proxy import ClusterProxy
from rota.kit import system


@pytest.mark.parametrize("tail", ["/../other/api", "/api/%2e%2e/%2E./other", "/api/./v1", "/.."])
async def test_a_proxied_path_does_not_leave_the_path_of_its_server(tail: str) -> None:
    proxy = ClusterProxy(clock=system.SystemClock())
    request = cast(SubresourceRequest, SimpleNamespace(at=SimpleNamespace(name="m1"), tail=tail))
    with pytest.raises(errors.BadRequest, match="no segments"):
        await proxy.handle(request, cast(Registry, None))
