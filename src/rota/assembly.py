"""The one place that builds parts and plugs them together.

Everything else takes what it needs as arguments; here the real clock, real randomness and real databases come in.
The command line and the simulator ask this module for running parts and know nothing of how they are made.
"""

from rota.kit import system
from rota.store import opening
from rota.store.contract import Store


async def open_store(url: str, *, create: bool = True) -> Store:
    """The store at `url`; without `create`, one that is not there is an error and nothing is written."""
    return await opening.open_store(url, time=system.SystemClock(), chance=system.chance(), create=create)
