"""A pytest plugin: private servers as fixtures, and a report of tests that a missing program excludes.

A test that uses a server fixture gets the part's marker automatically. If the part is missing, the test is skipped
and the last lines of the run say how many were skipped, why, and how to get the part; a part that ROTA_TEST_REQUIRE
names (`all`, or a list with commas) makes them fail with the same sentence. Works the same under pytest-xdist.
"""

import functools
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rota.testing import parts

if TYPE_CHECKING:
    from rota.testing.servers.etcd import EtcdServer
    from rota.testing.servers.kubernetes import StockApiServer
    from rota.testing.servers.postgres import PostgresServer

_NEEDS: Final = {
    "postgres_server": "postgres",
    "private_postgres": "postgres",
    "etcd_server": "etcd",
    "private_etcd": "etcd",
    "kubectl_program": "kubectl",
    "stock_server": "stock",
    "stock_programs": "stock",
}


@functools.cache
def _missing() -> dict[str, parts.Part]:
    return {part.name: part for part in parts.PARTS if not part.present()}


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a misspelt requirement at once, before it silently requires nothing."""
    for part in parts.PARTS:
        config.addinivalue_line("markers", f"{part.name}: needs {part.title}")
    try:
        parts.required(os.environ.get("ROTA_TEST_REQUIRE", ""))
    except parts.UnknownPartError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a server fixture, before `-m` selects tests."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in _NEEDS:
                item.add_marker(_NEEDS[fixture])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test whose part is missing."""
    for mark in item.iter_markers():
        part = _missing().get(mark.name)
        if part is not None:
            if part.name in parts.required(os.environ.get("ROTA_TEST_REQUIRE", "")):
                pytest.fail(part.absence, pytrace=False)
            pytest.skip(part.absence)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Print, after pytest's summary, the skipped parts and how to get them."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker of pytest-xdist: its controller reports
        return
    for part in parts.PARTS:
        for outcome, verdict in (("skipped", "left out"), ("failed", "failed"), ("error", "failed")):
            reports = reporter.stats.get(outcome, [])
            if count := sum(part.absence in str(report.longrepr) for report in reports):
                noun = "test" if count == 1 else "tests"
                reporter.write_line(f"{count} {noun} {verdict}: {part.absence}", yellow=True)


@pytest.fixture(scope="session")
def private_postgres(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Callable[[], PostgresServer]]":
    """Starts a private PostgreSQL that a test can stop, kill and pause; all end with the session."""
    from rota.testing.servers.postgres import PostgresServer  # noqa: PLC0415  # needs a driver that may be missing

    # Each worker of pytest-xdist has its own folder; the parent folder is shared.
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with ExitStack() as servers:
        yield lambda: servers.enter_context(PostgresServer(template=shared / "postgres-template"))


@pytest.fixture(scope="session")
def postgres_server(private_postgres: "Callable[[], PostgresServer]") -> "PostgresServer":
    """The session's PostgreSQL. Tests share it: do not stop it."""
    return private_postgres()


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer") -> Iterator[str]:
    """The URL of an empty private database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def private_etcd() -> "Iterator[Callable[[], EtcdServer]]":
    """Starts a private etcd that a test can stop, kill and pause; all end with the session."""
    from rota.testing.servers.etcd import EtcdServer  # noqa: PLC0415  # only when asked for, like the other one

    with ExitStack() as servers:
        yield lambda: servers.enter_context(EtcdServer())


@pytest.fixture(scope="session")
def etcd_server(private_etcd: "Callable[[], EtcdServer]") -> "EtcdServer":
    """The session's etcd. Tests share it: do not stop it."""
    return private_etcd()


@pytest.fixture
def etcd_url(etcd_server: "EtcdServer") -> str:
    """A URL with a private key prefix (its path)."""
    return f"{etcd_server.url}/{secrets.token_hex(6)}"


@pytest.fixture(scope="session")
def stock_programs() -> None:
    """Marks tests that start stock components on Rota's API server; the value is None."""


@pytest.fixture(scope="session")
def stock_server() -> "Iterator[StockApiServer]":
    """The session's stock kube-apiserver, without authorization. Tests share it: do not stop it."""
    from rota.testing.differential import allowances  # noqa: PLC0415  # only when asked for, like the others
    from rota.testing.servers.kubernetes import StockApiServer  # noqa: PLC0415

    left_out = allowances.STOCK_ADMISSION_WITHOUT_CONTROLLERS
    with tempfile.TemporaryDirectory(prefix="rota-stock-") as folder:
        configuration = Path(folder) / "admission.json"
        configuration.write_text(json.dumps(allowances.ADMISSION_CONFIGURATION), encoding="utf-8")
        with StockApiServer(
            authorization="AlwaysAllow",
            disable_admission_plugins=left_out,
            admission_control_config_file=str(configuration),
        ) as server:
            yield server
