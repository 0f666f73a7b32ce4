"""Descriptions of a Struct and its fields from the models' docstrings; `kubectl explain` shows them.

A docstring begins with the text about the Struct; a list of parameters follows, one item for each field, by the name of
its attribute. Lines are wrapped anywhere, so paragraphs are joined again.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

_PARAMETERS: Final = "**parameters**"
_ITEM: Final = re.compile(r"^ *\* \*\*(\w+)\*\* ``[^`]*`` - ?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Description:
    """The text about a Struct, and those about its fields by attribute name."""

    text: str
    fields: Mapping[str, str]


@functools.cache
def of(struct: type[msgspec.Struct]) -> Description:
    """The texts of a model's docstring; empty if it has none."""
    text, _, parameters = (struct.__doc__ or "").partition(_PARAMETERS)
    # names and texts alternate after the text before the first item
    _, *pieces = _ITEM.split(parameters)
    return Description(_joined(text), dict(zip(pieces[::2], map(_joined, pieces[1::2]), strict=True)))


def _joined(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
