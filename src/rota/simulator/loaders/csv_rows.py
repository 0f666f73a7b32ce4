"""CSV files (also in gzip or xz) row by row, with the line and the field of every fault.

A lenient reader counts faulty rows and goes on; a strict one raises at the first, before anything is simulated.
"""

import csv
import gzip
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from rota.kit.errors import UserError
from rota.simulator.traces import BadTrace, Skipped


class Row:
    """One row; a field that cannot be used raises `BadTrace` with the line and the name of the field."""

    __slots__ = ("_path", "_values", "line")

    def __init__(self, path: Path, line: int, values: Mapping[str, str]) -> None:
        self._path = path
        self._values = values
        self.line = line

    def fault(self, field: str, problem: str) -> BadTrace:
        """A fault of this row."""
        return BadTrace(f"{self._path}, line {self.line}, field {field}", problem)

    def text(self, field: str, default: str | None = None) -> str:
        """A text; required if there is no default."""
        value = (self._values.get(field) or "").strip()
        if value:
            return value
        if default is None:
            raise self.fault(field, "is empty")
        return default

    def number(self, field: str, default: float | None = None) -> float:
        """A number of 0 or more."""
        raw = self.text(field, None if default is None else "")
        if not raw and default is not None:
            return default
        try:
            value = float(raw)
        except ValueError:
            raise self.fault(field, f'"{raw}" is no number') from None
        if value != value or value in {float("inf"), float("-inf")}:
            raise self.fault(field, f'"{raw}" is no number')
        if value < 0:
            raise self.fault(field, f"{raw} is negative")
        return value

    def whole(self, field: str, default: int | None = None) -> int:
        """A whole number of 0 or more."""
        value = self.number(field, None if default is None else float(default))
        if value != int(value):
            raise self.fault(field, f"{value} is no whole number")
        return int(value)


class CsvFile:
    """A CSV file with a head, or with the given columns if it has none."""

    def __init__(
        self, path: Path, *, required: Sequence[str], skipped: Skipped, lenient: bool, columns: Sequence[str] = ()
    ) -> None:
        self.path: Final = path
        self._required: Final = required
        self._skipped: Final = skipped
        self._lenient: Final = lenient
        self._columns: Final = columns

    def rows(self) -> Iterator[Row]:
        """All rows with as many fields as the head has; the head is checked first."""
        try:
            with _opened(self.path) as file:
                reader = csv.reader(file)
                head = list(self._columns) or [name.strip() for name in next(reader, [])]
                self._check(head)
                for values in reader:
                    if not values:
                        continue
                    row = Row(self.path, reader.line_num, dict(zip(head, values, strict=False)))
                    if len(values) != len(head):
                        self.refuse(row.fault(head[min(len(values), len(head) - 1)], _miscounted(values, head)))
                        continue
                    yield row
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise UserError(f"cannot read {self.path}: {getattr(error, 'strerror', None) or error}") from error
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{self.path} is no CSV file: {error}") from error

    def refuse(self, fault: BadTrace) -> None:
        """Count a faulty row, or raise its fault."""
        if not self._lenient:
            raise UserError(fault.message, "correct the row, or skip such rows with --lenient") from fault
        self._skipped.add(fault.message)

    def _check(self, head: Sequence[str]) -> None:
        for name in self._required:
            if name not in head:
                known = ", ".join(head) or "none"
                raise BadTrace(f"{self.path}, line 1", f'the column "{name}" is missing', f"the columns are {known}")


def _miscounted(values: Sequence[str], head: Sequence[str]) -> str:
    return f"the row has {len(values)} fields, and the head has {len(head)}"


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
