"""`rota level`: what it shows, what it refuses, and that it raises the level."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Rota, Said

from rota.api import times
from rota.cli import main
from rota.kit import levels, system
from rota.store import roles
from rota.testing.store_contract import opened


@pytest.fixture
def rota(capfd: pytest.CaptureFixture[str]) -> Rota:
    def run(*arguments: str) -> Said:
        capfd.readouterr()
        return Said(main.main(list(arguments)), *capfd.readouterr())

    return run


def master(number: int, declared: str | None, *, age_s: float = 0.0) -> tuple[str, Any]:
    name = f"rota-master-{number}"
    notes = {"rota.dev/address": f"https://m{number}:6443"} | (
        {} if declared is None else {levels.ANNOTATION: declared}
    )
    return f"/coordination.k8s.io/leases/kube-system/{name}", {
        "metadata": {"name": name, "labels": {"rota.dev/master": "true"}, "annotations": notes},
        "spec": {"renewTime": times.format_micro_time(system.SystemClock().now() - age_s), "leaseDurationSeconds": 30},
    }


def node(name: str, declared: str | None) -> tuple[str, Any]:
    notes = {} if declared is None else {levels.ANNOTATION: declared}
    return f"/core/nodes/{name}", {"metadata": {"name": name, "annotations": notes}}


def filled(folder: Path, *objects: tuple[str, Any]) -> str:
    """The URL of a store of level 1 with these objects."""
    url = f"sqlite:///{folder}/rota.db"

    async def fill() -> None:
        async with opened(url) as store:
            for key, content in objects:
                await store.create(key, json.dumps(content).encode())

    asyncio.run(fill())
    return url


def level(url: str) -> int:
    async def read() -> int:
        async with opened(url) as store:
            return (await roles.read(store)).role.level

    return asyncio.run(read())


def test_the_level_of_a_cluster_is_shown_with_those_of_its_members(rota: Rota, tmp_path: Path) -> None:
    own = str(levels.OWN)
    url = filled(tmp_path, master(1, own), master(2, None), master(3, own, age_s=100.0), node("w1", None))
    said = rota("level", "--store", url, "--json")
    assert json.loads(said.out) == {
        "level": 1,
        "release": own,
        "masters": {"https://m1:6443": own, "https://m2:6443": "1-1"},
        "workers": {"w1": "1-1"},
        "formats": dict(levels.FORMATS),
    }
    assert "the cluster has level 1; this release works at levels 1-2" in rota("level", "--store", url).out


def test_the_level_is_raised_when_all_running_masters_know_it(rota: Rota, tmp_path: Path) -> None:
    """A master that has ended is refused when it comes back, so it does not count."""
    own = str(levels.OWN)
    url = filled(tmp_path, master(1, own), master(2, None, age_s=100.0), node("w1", None))
    assert rota("level", "raise", "--store", url).out == "the level was raised from 1 to 2\n"
    assert level(url) == 2
    said = rota("level", "raise", "--store", url, "--json")
    assert json.loads(said.out) == {"before": 2, "level": 2}


@pytest.mark.parametrize("action", [(), ("raise",)])
def test_a_store_that_does_not_exist_is_not_made(rota: Rota, tmp_path: Path, action: tuple[str, ...]) -> None:
    assert rota("level", *action, "--store", f"sqlite:///{tmp_path}/none.db").code == 2
    assert not (tmp_path / "none.db").exists()


def test_the_level_stays_while_a_running_master_does_not_know_the_next(rota: Rota, tmp_path: Path) -> None:
    url = filled(tmp_path, master(1, str(levels.OWN)), master(2, None))
    said = rota("level", "raise", "--store", url)
    assert said.code == 2
    assert "https://m2:6443 does not know level 2; upgrade that master, or end it" in said.err
    assert level(url) == 1


def test_members_that_cannot_be_read_keep_the_level(rota: Rota, tmp_path: Path) -> None:
    url = filled(tmp_path)

    async def damage() -> None:
        async with opened(url) as store:
            await store.create("/core/nodes/w1", b"k8s:enc:...")

    asyncio.run(damage())
    said = rota("level", "raise", "--store", url)
    assert said.code == 2
    assert "/core/nodes/w1 cannot be read in the store" in said.err
    assert level(url) == 1
