from pathlib import Path

import pytest

from rota.apiserver.encryption import keyfile
from rota.apiserver.encryption.keyfile import KeyFile
from rota.kit import system
from rota.testing.databases import BACKENDS, FreshDatabase, fresh_database


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest) -> FreshDatabase:
    return fresh_database(request.param, request)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A key file with one key, for secrets."""
    made = tmp_path / "keys.yaml"
    keyfile.generate(made, now=0.0)
    return made


@pytest.fixture
def keys(path: Path) -> KeyFile:
    return KeyFile(path, system.SystemClock())
