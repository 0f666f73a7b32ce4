"""`$(NAME)` in commands, arguments and variables: replaced if the name is known, else left as it is.

`$$` is an escaped dollar, so `$$(NAME)` is the text `$(NAME)`. Pure; the rules are upstream's.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^()$]*)\))")


def expand(text: str, known: Mapping[str, str]) -> str:
    """The text with all known names replaced."""
    if "$" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match.group(1):
            return "$"
        return known.get(match.group(2), match.group(0))

    return _REFERENCE.sub(replace, text)


def expand_all(texts: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """`expand` for each of the texts."""
    return [expand(text, known) for text in texts]
