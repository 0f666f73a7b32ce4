import gc
import threading

import pytest

from rota.kit import offload


async def test_small_inputs_are_worked_on_at_once() -> None:
    assert await offload.run(threading.get_ident, offload.INLINE_BYTES) == threading.get_ident()


async def test_large_inputs_are_worked_on_elsewhere_and_what_goes_wrong_comes_back() -> None:
    def fail() -> None:
        raise KeyError("x")

    assert await offload.run(threading.get_ident, offload.ALWAYS) != threading.get_ident()
    with pytest.raises(KeyError):
        await offload.run(fail, offload.ALWAYS)


async def test_the_collector_rests_during_large_work_and_goes_on_after_it() -> None:
    assert gc.isenabled()
    assert not await offload.run(gc.isenabled, offload.ALWAYS)
    assert gc.isenabled()
