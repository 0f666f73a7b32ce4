"""Opens a store by its URL.

The drivers of PostgreSQL and etcd are extras, so their backends are imported only when a URL needs them.
"""

import importlib
import urllib.parse
from collections.abc import Awaitable, Callable
from pathlib import Path

from rota.kit import backoff, clock, logs
from rota.store import errors
from rota.store.backends.memory import Database, MemoryEngine
from rota.store.backends.sqlite.engine import SqliteEngine
from rota.store.logstore import LogStore, Settings
from rota.store.store_interface import Store

FORMS = "sqlite:///path, postgresql://user@host:port/database, etcd://host:port[,host:port], memory://"

#: The data of `memory://NAME`, shared within this process.
_SHARED_MEMORY: dict[str, Database] = {}


async def open_store(
    url: str,
    *,
    time: clock.Clock,
    rng: backoff.Rng,
    create: bool = True,
    settings: Settings | None = None,
) -> Store:
    """Open the store at `url`; without `create`, a missing one is an error and nothing is written."""
    scheme, separator, rest = url.partition("://")
    openers: dict[str, Callable[[], Awaitable[Store]]] = {
        "memory": lambda: _open_memory(rest, time, rng, settings),
        "sqlite": lambda: _open_sqlite(rest, time, rng, settings, create),
        "postgresql": lambda: _open_extra("postgres", url, time, rng, settings, create),
        "postgres": lambda: _open_extra("postgres", url, time, rng, settings, create),
        "etcd": lambda: _open_extra("etcd", url, time, rng, settings, create),
        "etcds": lambda: _open_extra("etcd", url, time, rng, settings, create),
    }
    if not separator or scheme not in openers:
        raise errors.BadAddress(f"{logs.redact_url(url)!r} is not the URL of a store", f"use one of: {FORMS}")
    return await openers[scheme]()


async def _open_memory(name: str, time: clock.Clock, rng: backoff.Rng, settings: Settings | None) -> Store:
    database = _SHARED_MEMORY.setdefault(name, Database()) if name else Database()
    return await LogStore.start(MemoryEngine(database, time), time=time, rng=rng, settings=settings)


async def _open_sqlite(
    rest: str, time: clock.Clock, rng: backoff.Rng, settings: Settings | None, create: bool
) -> Store:
    # After sqlite:// comes an empty host and a path: three slashes, four for an absolute path.
    if not rest.startswith("/") or rest == "/":
        raise errors.BadAddress(
            f"sqlite://{rest} has no file name", "write sqlite:///relative/path or sqlite:////absolute/path"
        )
    if "?" in rest or "#" in rest:
        raise errors.BadAddress(f"sqlite://{rest} has a query or fragment", "write the path only")
    path = Path(urllib.parse.unquote(rest[1:]))
    engine = await SqliteEngine.open(path, time=time, create=create)
    try:
        return await LogStore.start(engine, time=time, rng=rng, settings=settings)
    except BaseException:
        await engine.close()
        raise


async def _open_extra(
    extra: str, url: str, time: clock.Clock, rng: backoff.Rng, settings: Settings | None, create: bool
) -> Store:
    try:
        backend = importlib.import_module(f"rota.store.backends.{extra}")
    except ModuleNotFoundError as problem:
        raise errors.BadAddress(
            f"the {extra} backend needs the package {problem.name}", f"pip install 'rota[{extra}]'"
        ) from problem
    store: Store = await backend.open_store(url, time=time, rng=rng, settings=settings, create=create)
    return store
