"""Our server answers as the stock kube-apiserver did to the same requests; needs nothing but the record."""

import pytest
from tests.stock import answers

from rota.client.transports.in_process import InProcessTransport
from rota.kit import system
from rota.testing.api import ApiServer
from rota.testing.differential import allowances, cases
from rota.testing.differential.cases import Case

CASES = answers.read()


class RecordedClock(system.SystemClock):
    """Runs as the machine's clock does, from when a case was recorded: ages are what they were."""

    def __init__(self) -> None:
        self._behind = 0.0

    def set_back(self, to: float) -> None:
        self._behind = super().now() - to

    def now(self) -> float:
        return super().now() - self._behind


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(CASES))
async def test_requests_are_answered_as_the_stock_server_did(kind: str) -> None:
    wrong = []
    clock = RecordedClock()
    async with ApiServer(clock=clock) as api:
        transport = InProcessTransport(api.app, clock=api.clock)
        for number, case in enumerate(CASES[kind]):
            clock.set_back(case.recorded)
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
