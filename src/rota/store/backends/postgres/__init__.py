"""The store in a PostgreSQL database, shared by any number of processes on any number of machines.

`engine` reads and does what may safely be done twice, `writer` commits each batch of work exactly once, `statements`
has the SQL of that commit, `listener` hears of others' commits, `sessions` connects, `schema` makes and recognises the
tables, `faults` turns PostgreSQL's errors into ours.
"""

from rota.kit import backoff, clock
from rota.store.backends.postgres.engine import PostgresEngine
from rota.store.logstore import LogStore, Settings
from rota.store.store_interface import Store


async def open_store(
    url: str, *, time: clock.Clock, rng: backoff.Rng, settings: Settings | None, create: bool
) -> Store:
    """Open the database at `url`; everything that libpq understands may stand in it.

    The tables are looked for in the first schema of the search path, so that
    ``?options=-csearch_path%3DNAME`` chooses another one than ``public``.
    """
    settings = settings or Settings()
    engine = await PostgresEngine.open(url, time=time, rng=rng, settings=settings, create=create)
    try:
        return await LogStore.start(engine, time=time, rng=rng, settings=settings)
    except BaseException:
        await engine.close()
        raise
