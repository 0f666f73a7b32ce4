"""Which users are nodes: those of the group `system:nodes`, by a name that says which node."""

from typing import Final

from rota.apiserver.interfaces import User

GROUP: Final = "system:nodes"
PREFIX: Final = "system:node:"


def node_of(user: User) -> str | None:
    """The node that a user is; empty if it is one and does not say which, None if it is none."""
    return user.name.removeprefix(PREFIX) if GROUP in user.groups and user.name.startswith(PREFIX) else None
