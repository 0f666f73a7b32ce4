"""The store in a PostgreSQL database, shared by any number of processes on any number of machines.

`engine` has the reads and the idempotent writes, `writer` commits each batch of work exactly once, `statements` has the
SQL of that commit, `listener` receives notifications of other processes' commits, `sessions` connects, `schema` creates
and recognises the tables, `faults` translates PostgreSQL's errors.
"""

from rota.kit import backoff, clock
from rota.store.backends.postgres.engine import PostgresEngine
from rota.store.logstore import LogStore, Settings
from rota.store.store_interface import Store


async def open_store(
    url: str, *, time: clock.Clock, rng: backoff.Rng, settings: Settings | None, create: bool
) -> Store:
    """Open the database at `url`, which may have any parameter of libpq.

    The tables are looked for in the first schema of the search path, so that ``?options=-csearch_path%3DNAME`` chooses
    another one than ``public``.
    """
    settings = settings or Settings()
    engine = await PostgresEngine.open(url, time=time, rng=rng, settings=settings, create=create)
    try:
        return await LogStore.start(engine, time=time, rng=rng, settings=settings)
    except BaseException:
        await engine.close()
        raise
