"""Plans of gangs as annotations, which any user of a PodGroup may write."""

import base64
import tracemalloc
import zlib

from rota.scheduler.batch import binding_plans


def group(text: str) -> dict[str, object]:
    return {"metadata": {"annotations": {binding_plans.ANNOTATION: text}}}


def test_a_plan_is_read_as_it_was_written() -> None:
    placed = {f"train-{number}": f"n{number % 3}" for number in range(100)}
    assert binding_plans.read(group(binding_plans.encode(placed))) == placed


def test_a_plan_that_decompresses_to_very_much_is_refused_without_the_memory() -> None:
    bomb = base64.b64encode(zlib.compress(b" " * (128 << 20), 9)).decode()
    assert len(bomb) < 256 * 1024
    tracemalloc.start()
    try:
        assert binding_plans.read(group(bomb)) == {}
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
