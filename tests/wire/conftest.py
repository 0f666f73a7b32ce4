"""One server per module, on a socket; every test has its own namespace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.testing.kubectl import Kubectl
from rota.testing.live import LiveServer
from rota.testing.servers import binaries

#: The oldest and the newest on this machine; without any, one name to report the missing part by.
KUBECTLS = list(dict.fromkeys((*binaries.kubectls()[:1], *binaries.kubectls()[-1:]))) or [Path("kubectl")]


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer() as server:
        yield server


@pytest.fixture(scope="module", params=KUBECTLS, ids=lambda program: program.name)
def kubectl_program(request: pytest.FixtureRequest) -> Path:
    program: Path = request.param
    return program


@pytest.fixture(scope="module")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kubectl caches the server's documents."""
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(live: LiveServer, kubectl_program: Path, kubectl_home: Path) -> Kubectl:
    """kubectl in the test's own namespace."""
    return Kubectl(kubectl_program, url=live.url, namespace=live.namespace(), home=kubectl_home / kubectl_program.name)
