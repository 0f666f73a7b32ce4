"""The same requests to the stock kube-apiserver and to ours, as they are generated, and the record held against it."""

import http
import random
import secrets
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.stock import answers, generation

from rota.client import kubeconfig
from rota.client.transports.http import HttpTransport
from rota.client.transports.in_process import InProcessTransport
from rota.client.transports.transport import Interrupted, Transport
from rota.kit import system
from rota.testing.api import ApiServer
from rota.testing.differential import allowances, cases, normal
from rota.testing.differential.cases import Request
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CASES = answers.read()
#: What scripts/compare-with-stock goes through for all kinds and with any seed: here for these, and always the same.
SETTLED = ("ConfigMap", "Secret", "ServiceAccount", "Namespace", "Lease")
BATCHES, CASES_IN_A_BATCH = 20, 10
EXAMPLES = [one for one in generation.examples() if one.kind in SETTLED]


@pytest.fixture
async def stock(stock_server: StockApiServer) -> AsyncIterator[Transport]:
    transport = HttpTransport(kubeconfig.load(stock_server.kubeconfig(), clock=system.SystemClock()))
    yield transport
    await transport.close()


@pytest.mark.parametrize("kind", sorted(CASES))
async def test_the_record_says_what_the_stock_server_says(stock: Transport, kind: str) -> None:
    wrong = []
    for case in CASES[kind]:
        replies = await _asked(stock, case.requests)
        for request, now, then in zip(case.requests, replies, case.replies, strict=True):
            assert now.code == then.code, (case.name, str(request))
            if then.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:  # which of several causes those tell varies
                lines = normal.differences(normal.without_ages(now.body), normal.without_ages(then.body))
                wrong += [f"{case.name}: {request}: {line}" for line in lines]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(BATCHES))
async def test_generated_requests_get_the_same_answers(stock: Transport, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(CASES_IN_A_BATCH):
        async with ApiServer() as api:
            ours = InProcessTransport(api.app, clock=api.clock)
            await _compare(ours, stock, generation.case(rng, EXAMPLES))
            await ours.close()


async def _compare(ours: Transport, stock: Transport, requests: Sequence[Request]) -> None:
    mine, other = await _asked(ours, requests), await _asked(stock, requests)
    for request, here, there in zip(requests, mine, other, strict=True):
        lines = allowances.differences(request, here, there)
        assert not lines, f"{request} {request.body}:\n" + "\n".join(lines)


async def _asked(transport: Transport, requests: Sequence[Request]) -> list[cases.Reply]:
    """The replies in a namespace of their own; once more if the server closed the connection under a request."""
    try:
        return await cases.replies(transport, requests, namespace=f"case-{secrets.token_hex(4)}")
    except Interrupted:
        return await cases.replies(transport, requests, namespace=f"case-{secrets.token_hex(4)}")
