"""A view: takes the changes of collections, and tells its beginning and what has changed since.

Tables have rows with a key. A tab gets the columns and all rows first, and after that the rows that changed. Changes of
one row between two deltas are told once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from rota.client.informers.cache import Key

R = TypeVar("R")

#: Rows in a portion of a beginning: a page reads them within milliseconds.
_PORTION: Final = 2000


class View(Protocol):
    """A reducer of some collections."""

    def apply(self, collection: str, key: Key, old: Any, new: Any, now: float, /) -> None:
        """An object changed: None as `old` if it is new, as `new` if it is gone."""
        ...

    def begin(self) -> Sequence[object]:
        """Everything, for a tab that knows nothing yet, in portions that a page takes in without a pause."""
        ...

    def delta(self, now: float, /) -> object | None:
        """What changed since the last call; None if nothing did."""
        ...


class Table(Generic[R]):
    """Rows by key, and which of them changed."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._columns: Final = tuple(columns)
        self._rows: Final[dict[str, R]] = {}
        self._changed: Final[set[str]] = set()

    @property
    def rows(self) -> Mapping[str, R]:
        """The rows by key."""
        return self._rows

    def put(self, key: str, row: R) -> None:
        """Set a row; one that says the same is no change."""
        if self._rows.get(key) != row:
            self._rows[key] = row
            self._changed.add(key)

    def drop(self, key: str) -> None:
        """Remove a row."""
        if self._rows.pop(key, None) is not None:
            self._changed.add(key)

    def begin(self) -> Sequence[object]:
        """See `View.begin`."""
        rows = list(self._rows.items())
        portions = [rows[at : at + _PORTION] for at in range(0, len(rows), _PORTION)] or [[]]
        return [{"columns": self._columns, "rows": one} for one in portions]

    def delta(self, now: float, /) -> object | None:
        """See `View.delta`."""
        if not self._changed:
            return None
        put = [(key, self._rows[key]) for key in self._changed if key in self._rows]
        gone = [key for key in self._changed if key not in self._rows]
        self._changed.clear()
        return {"set": put, "gone": gone}


class Rows(Generic[R]):
    """A view with one row for each object of a kind, of one namespace or of all; the collection has made the rows."""

    def __init__(self, columns: Iterable[str], namespace: str = "") -> None:
        self._namespace: Final = namespace
        self._table: Final = Table[R](columns)

    def apply(self, collection: str, key: Key, old: R | None, new: R | None, now: float, /) -> None:
        """See `View.apply`."""
        if self._namespace and key.namespace != self._namespace:
            return
        name = f"{key.namespace}/{key.name}"
        if new is None:
            self._table.drop(name)
        else:
            self._table.put(name, new)

    def begin(self) -> Sequence[object]:
        """See `View.begin`."""
        return self._table.begin()

    def delta(self, now: float, /) -> object | None:
        """See `View.delta`."""
        return self._table.delta(now)
