"""One federation with three members for the modules that only add their own namespaces to it."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.federation.live import live_place as live

GATES = (
    "FederatedQuotaEnforcement",
    "MultiplePodTemplatesScheduling",
    "PropagationPolicyPreemption",
    "WorkloadAffinity",
    "DetailedStatus",
    "MultiClusterService",
)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[live.Processes]:
    members = {
        "m1": ("--region", "eu", "--zone", "eu-1", "--label", "tier=gold"),
        "m2": ("--region", "eu", "--zone", "eu-2", "--label", "tier=gold"),
        "m3": ("--region", "us", "--zone", "us-1", "--label", "tier=silver"),
    }
    gates = ",".join(f"{name}=true" for name in GATES)
    with live.running(
        tmp_path_factory.mktemp("shared"), members, "--feature-gates", gates, "--unschedulable-after", "3s"
    ) as processes:
        yield processes


@pytest.fixture
async def fed(shared: live.Processes) -> AsyncIterator[live.Place]:
    async with live.place(shared) as place:
        yield place
