"""Our server answers as the stock kube-apiserver did to the same requests; needs nothing but the record."""

import pytest
from tests.stock import answers

from rota.client.transports.in_process import InProcessTransport
from rota.testing.api import ApiServer
from rota.testing.differential import allowances, cases
from rota.testing.differential.cases import Case

CASES = answers.read()


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(CASES))
async def test_requests_are_answered_as_the_stock_server_did(kind: str) -> None:
    wrong = []
    async with ApiServer() as api:
        transport = InProcessTransport(api.app, clock=api.clock)
        for number, case in enumerate(CASES[kind]):
            wrong += await _differences(transport, case, namespace=f"case-{number}")
        await transport.close()
    assert not wrong, "\n".join(wrong)


async def _differences(transport: InProcessTransport, case: Case, *, namespace: str) -> list[str]:
    replies = await cases.replies(transport, case.requests, namespace=namespace)
    return [
        f"{case.name}: {request}: {line}"
        for request, ours, theirs in zip(case.requests, replies, case.replies, strict=True)
        for line in allowances.differences(request, ours, theirs)
    ]
