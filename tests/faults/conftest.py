"""Real masters on real stores; everything here takes seconds."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rota.testing.masters import Master


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Master]]:
    """Starts masters of the test's own; all end with it."""
    with ExitStack() as masters:

        def start(
            store_url: str,
            *,
            name: str = "master",
            options: tuple[str, ...] = (),
            files: tuple[int, int] | None = None,
        ) -> Master:
            keys = tmp_path / "keys.yaml"
            made = Master(tmp_path / name, store_url=store_url, keys=keys, options=options, files=files)
            return masters.enter_context(made)

        yield start
