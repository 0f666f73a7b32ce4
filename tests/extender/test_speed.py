"""The measurement of the extender measures answers."""

import pytest

from rota.bench import extender


@pytest.mark.slow
async def test_attempts_are_answered_and_timed() -> None:
    took = await extender.asked(nodes=300, times=5)
    assert len(took) == 5
    assert all(min(one.filter_ms, one.prioritize_ms, one.processor_ms) > 0 for one in took)
