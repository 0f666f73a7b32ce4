"""What tests of verbs share: one API server per process, and `rota` run in this process against it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import pytest

from rota.cli import main
from rota.testing.live import LiveServer


class Said(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def cells(self) -> list[list[str]]:
        """The words of each line of output."""
        return [line.split() for line in self.lines]


Rota: TypeAlias = Callable[..., Said]


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    """An API server without controllers, scheduler or workers; tests keep to namespaces of their own."""
    with LiveServer() as live:
        yield live


@pytest.fixture
def namespace(server: LiveServer) -> str:
    return server.namespace("cli")


@pytest.fixture
def rota(server: LiveServer, capfd: pytest.CaptureFixture[str]) -> Rota:
    """Runs a command at the server."""

    def run(*arguments: str) -> Said:
        capfd.readouterr()
        code = main.main([*arguments, "--server", server.url])
        said = capfd.readouterr()
        return Said(code, said.out, said.err)

    return run
