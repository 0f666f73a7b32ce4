"""Fresh databases for the store's tests, for every backend."""

import secrets
from dataclasses import dataclass
from pathlib import Path

import pytest

BACKENDS = [
    "memory",
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("etcd", marks=pytest.mark.etcd),
]
#: The persistent ones.
DURABLE = BACKENDS[1:]


@dataclass(frozen=True)
class FreshDatabase:
    """An empty database; fills `store_contract.Database`."""

    kind: str
    url: str

    @property
    def merges_heartbeats(self) -> bool:
        """Whether history keeps only the latest of successive heartbeats."""
        return self.kind != "etcd"


def fresh_database(kind: str, request: pytest.FixtureRequest) -> FreshDatabase:
    """An empty database of a backend, removed after the test."""
    if kind == "memory":
        return FreshDatabase(kind, f"memory://{secrets.token_hex(6)}")
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        return FreshDatabase(kind, f"sqlite:///{folder}/store.db")
    return FreshDatabase(kind, request.getfixturevalue(f"{kind}_url"))
