"""The metrics of several equal processes as one text: each sample gets a label that names its process. Pure."""

import re
from collections.abc import Mapping
from typing import Final

_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(.*)\})? (.*)$")
_END: Final = "# EOF"


def merged(label: str, expositions: Mapping[str, bytes]) -> bytes:
    """One exposition of several, by the value of the label.

    The samples of a metric must be together, so each metric's come from all processes, one after the other.
    """
    headers: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    ends = False
    for value, body in expositions.items():
        family, first = "", True
        for line in body.decode().splitlines():
            if line == _END:
                ends = True
            elif line.startswith("# "):
                _, _, name, *_ = line.split(" ", 3)
                if name != family:
                    family, first = name, name not in headers
                    headers.setdefault(name, [])
                    samples.setdefault(name, [])
                if first:
                    headers[name].append(line)
            elif (found := _SAMPLE.match(line)) is not None:
                labels = ",".join(filter(None, (found[3], f'{label}="{value}"')))
                samples.setdefault(family, []).append(f"{found[1]}{{{labels}}} {found[4]}")
    lines = [line for family in headers for line in (*headers[family], *samples[family])]
    return "".join(f"{line}\n" for line in (*lines, *((_END,) if ends else ()))).encode()
