"""Fixtures of the comparisons with a stock API server."""

from collections.abc import AsyncIterator

import pytest

from rota.apiserver.admission import pod_security_config
from rota.apiserver.aggregation.front_proxy import FrontProxySettings
from rota.client import kubeconfig
from rota.client.transports.http import HttpTransport
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.transport import Transport
from rota.kit import system
from rota.pki.authorities import Authority
from rota.testing.api import ApiServer
from rota.testing.differential import allowances
from rota.testing.servers.kubernetes import StockApiServer


@pytest.fixture
async def servers(stock_server: StockApiServer) -> AsyncIterator[tuple[Transport, Transport]]:
    """Our server, which binds pods without looking at their nodes as stock servers do, and the stock one."""
    theirs = HttpTransport(kubeconfig.load(stock_server.kubeconfig(), clock=system.SystemClock()))
    exempt = pod_security_config.parse(allowances.ADMISSION_CONFIGURATION)
    front = Authority.create(now=system.SystemClock().now(), name="front-proxy-ca")
    front_proxy = FrontProxySettings(authority=front, client_authorities=front.certificate_pem)
    async with ApiServer(conflict_check=False, pod_security=exempt, front_proxy=front_proxy) as api:
        ours = InProcessTransport(api.app, clock=api.clock)
        yield ours, theirs
        await ours.close()
    await theirs.close()
