"""`rota encryption`: the life of a key, from outside."""

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner, Result

from rota import assembly
from rota.apiserver.encryption import keyfile
from rota.apiserver.encryption.keyfile import KeyFile
from rota.cli.main import root
from rota.kit import system
from rota.store import roles
from rota.store.roles import Role
from rota.testing.api import ApiServer
from rota.testing.store_contract import opened

SECRETS = "/api/v1/namespaces/default/secrets"


class Cluster:
    """A store in a file with its keys, and the command line on it."""

    def __init__(self, folder: Path) -> None:
        self.keys = folder / "keys.yaml"
        self.url = f"sqlite:///{folder}/store.db"

    def secret(self, name: str, *, encrypted: bool = True) -> None:
        async def work() -> None:
            keys = KeyFile(self.keys, system.SystemClock()) if encrypted else None
            async with ApiServer(store_url=self.url, encryption=keys) as api:
                assert (await api.post(SECRETS, {"metadata": {"name": name}})).code == 201

        asyncio.run(work())

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            root, ["encryption", *arguments, "--store", self.url, "--keys", str(self.keys)], prog_name="rota"
        )

    def facts(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.output)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    keyfile.generate(made.keys, now=0.0)
    return made


@pytest.mark.slow
def test_a_key_is_made_used_replaced_and_forgotten(cluster: Cluster) -> None:
    cluster.secret("before", encrypted=False)
    cluster.secret("after")
    found, own = cluster.facts("status")
    assert own["objects_by_key"] == {}
    assert found == {
        "prefix": "/core/secrets/",
        "key": "1970-01-01",
        "objects_by_key": {"": 1, "1970-01-01": 1},
    }
    assert "not encrypted" in cluster.run("status").output
    rotated = cluster.facts("rotate")
    assert rotated["rewritten"] == 2
    assert rotated["key"] != "1970-01-01"
    found, _ = cluster.facts("status")
    assert found["objects_by_key"] == {rotated["key"]: 2}
    assert cluster.facts("rotate", "--keep-key")["rewritten"] == 0
    assert cluster.facts("forget") == {"forgotten": ["1970-01-01"]}
    assert cluster.facts("forget") == {"forgotten": []}
    cluster.secret("again")


def test_a_store_that_is_not_there_is_said(cluster: Cluster) -> None:
    assert cluster.run("status").exit_code != 0


@pytest.mark.slow
def test_the_wrong_key_file_is_refused_and_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    async def use() -> None:
        async with opened(cluster.url):
            await assembly.encryption_status(cluster.url, cluster.keys)

    asyncio.run(use())
    cluster.keys = tmp_path / "other.yaml"
    keyfile.generate(cluster.keys, now=1e9)
    before = cluster.keys.read_text()
    done = cluster.run("rotate")
    assert done.exit_code != 0
    assert "other.yaml does not hold it" in str(done.exception)
    assert cluster.keys.read_text() == before


@pytest.mark.parametrize(("role", "says"), [("standby", "is a standby"), ("superseded", "was superseded")])
def test_only_a_primary_is_encrypted_again(cluster: Cluster, role: Literal["standby", "superseded"], says: str) -> None:
    """A standby must stay equal to its primary, which has other values as long as it is not rotated itself."""

    async def make() -> None:
        async with opened(cluster.url) as store:
            assert await roles.write(store, Role(role=role, epoch=1), await roles.read(store)) is not None

    asyncio.run(make())
    before = cluster.keys.read_text()
    done = cluster.run("rotate")
    assert done.exit_code != 0
    assert says in str(done.exception)
    assert cluster.keys.read_text() == before


def test_options_that_do_not_go_together_are_refused(cluster: Cluster) -> None:
    done = cluster.run("status", "--keep-key")
    assert done.exit_code == 2
    assert "--keep-key goes with rotate" in done.output
