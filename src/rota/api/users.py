"""A user: who asks, or on whose behalf a part of this process acts.

The API server finds it out from what a request brings along; parts that call an API server in their own process say it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: Everybody whom the server knows is in the first group, everybody else in the second.
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
#: May do everything, whatever the roles say.
MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A name with all that goes with it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS: Final = User(name="system:anonymous", groups=(UNAUTHENTICATED,))
ADMINISTRATOR: Final = User(name="system:admin", groups=(MASTERS, AUTHENTICATED))
