"""The recorded cases: requests, and what the stock kube-apiserver answered to them.

They were found by sending generated requests to both servers: each is one on which they once differed, cut off after
the difference, or one of a sample on which they did not. `scripts/compare-with-stock --record` writes the file anew.
"""

import lzma
from pathlib import Path
from typing import Final

import msgspec

from rota.testing.differential.cases import Case

FILE: Final = Path(__file__).parent / "answers.jsonl.xz"
decode: Final = msgspec.json.Decoder(Case).decode


def read() -> dict[str, list[Case]]:
    """The cases by the kind that they are about, which is the first part of their name."""
    found: dict[str, list[Case]] = {}
    for line in lzma.decompress(FILE.read_bytes()).splitlines():
        one = decode(line)
        found.setdefault(one.name.partition(" ")[0], []).append(one)
    return found


def write(cases: list[Case]) -> None:
    """Replace the file. The order of fields in a body is kept: which of two mistakes is told of depends on it."""
    lines = [msgspec.json.encode(one) for one in sorted(cases, key=lambda case: case.name)]
    FILE.write_bytes(lzma.compress(b"\n".join(lines) + b"\n", preset=9))
