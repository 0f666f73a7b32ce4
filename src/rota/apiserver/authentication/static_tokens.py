"""Tokens from a file, in upstream's format: lines of `token,user,uid,"group1,group2"`; the groups are optional."""

import csv
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rota.apiserver.authentication.tokens import Verified
from rota.apiserver.interfaces import User
from rota.kit import errors

_LEAST_COLUMNS: Final = 3


class TokenFileError(errors.UserError):
    """A token file is invalid."""


class StaticTokens:
    """A `TokenOrigin` of tokens that are valid as long as the server runs."""

    def __init__(self, users: Mapping[str, User], *, audiences: tuple[str, ...]) -> None:
        """`users` by token; the tokens are for these audiences."""
        # by digest, so that the duration of a comparison reveals nothing about tokens
        self._users: Final = {_digest(token): user for token, user in users.items()}
        self._audiences: Final = audiences

    async def verify(self, token: str, audiences: tuple[str, ...], /) -> Verified | None:
        """See `TokenOrigin.verify`."""
        user = self._users.get(_digest(token))
        meant = tuple(one for one in audiences if one in self._audiences)
        return None if user is None or not meant else Verified(user=user, audiences=meant)


def read(path: Path) -> dict[str, User]:
    """The users of a token file; TokenFileError names the wrong line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise TokenFileError(f"cannot read the token file {path}: {why}", "name a CSV file") from None
    return parse(text, source=str(path))


def parse(text: str, *, source: str) -> dict[str, User]:
    """The users of a token file's text."""
    users: dict[str, User] = {}
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    for row in rows:
        if not row or row[0].startswith("#"):
            continue
        if len(row) < _LEAST_COLUMNS or not row[0] or not row[1]:
            raise TokenFileError(
                f"line {rows.line_num} of {source} names no token and user",
                'write it as token,user,uid,"group1,group2"',
            )
        token, name, uid, *rest = row
        groups = tuple(group.strip() for group in rest[0].split(",") if group.strip()) if rest else ()
        users[token] = User(name=name, uid=uid, groups=groups)
    return users


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
