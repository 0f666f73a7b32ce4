"""Pull members behind links that are cut: nothing exclusive runs twice, nothing available stops, everything converges.

The long form, with more random cuts, is `make soak ARGS="--federation"`.
"""

from pathlib import Path

import pytest

from rota.testing import hosts, partitions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(hosts.missing()), reason=hosts.missing() or "-"),
]
SECONDS = 15.0
SEED = 7


async def test_under_partitions_exclusive_work_never_runs_twice_and_available_work_never_stops(tmp_path: Path) -> None:
    assert await partitions.soak(tmp_path, SECONDS, SEED, say=print) > 1
