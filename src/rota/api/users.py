"""The user of a request.

The API server derives it from a request's credentials; components in the server's process name it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: Authenticated users are in the first group, anonymous ones in the second.
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
