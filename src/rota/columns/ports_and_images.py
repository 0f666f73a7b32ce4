"""Host ports and images by node: sparse, because most nodes have few of either.

Both are looked up by what a pod requests, so each is an index from port or image to rows.
"""

from collections.abc import Iterable, Mapping

from rota.api.resources import HostPort


class HostPorts:
    """The rows on which a host port is taken, and on which addresses."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        #: (protocol, port) -> row -> address -> number of pods; no empty entries.
        self._taken: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def add(self, ports: Iterable[HostPort], row: int) -> None:
        """Add the ports of one pod."""
        for port in ports:
            addresses = self._taken.setdefault((port.protocol, port.port), {}).setdefault(row, {})
            addresses[port.address] = addresses.get(port.address, 0) + 1

    def remove(self, ports: Iterable[HostPort], row: int) -> None:
        """Remove the ports of one pod."""
        for port in ports:
            rows = self._taken[port.protocol, port.port]
            addresses = rows[row]
            addresses[port.address] -= 1
            if not addresses[port.address]:
                del addresses[port.address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._taken[port.protocol, port.port]

    def copy(self) -> "HostPorts":
        """An independent copy."""
        twin = HostPorts()
        twin._taken = {
            key: {row: dict(addresses) for row, addresses in rows.items()} for key, rows in self._taken.items()
        }
        return twin

    def taken(self, protocol: str, port: int) -> Mapping[int, Mapping[str, int]]:
        """The addresses on which a port is taken, by row."""
        return self._taken.get((protocol, port), {})


class Images:
    """The rows that have an image, and its size there."""

    __slots__ = ("_by_row", "_rows", "version")

    def __init__(self) -> None:
        self._by_row: dict[int, Mapping[str, int]] = {}
        self._rows: dict[str, dict[int, int]] = {}
        #: Counts the changes.
        self.version = 0

    def set(self, row: int, sizes: Mapping[str, int]) -> None:
        """Update a row."""
        old = self._by_row.pop(row, {})
        if old == sizes:
            if sizes:
                self._by_row[row] = sizes
            return
        self.version += 1
        for name in old:
            rows = self._rows[name]
            del rows[row]
            if not rows:
                del self._rows[name]
        for name, size in sizes.items():
            self._rows.setdefault(name, {})[row] = size
        if sizes:
            self._by_row[row] = sizes

    def copy(self) -> "Images":
        """An independent copy."""
        twin = Images()
        twin._by_row = dict(self._by_row)
        twin._rows = {name: dict(rows) for name, rows in self._rows.items()}
        twin.version = self.version
        return twin

    def holders(self, name: str) -> Mapping[int, int]:
        """The size of an image by row, for the rows that have it."""
        return self._rows.get(name, {})
