"""Which users are nodes: members of `system:nodes` with a name that contains the node's."""

from typing import Final

from rota.apiserver.interfaces import User

GROUP: Final = "system:nodes"
PREFIX: Final = "system:node:"


def node_of(user: User) -> str | None:
    """The node of a user; empty if the name does not contain one, None if the user is not a node."""
    return user.name.removeprefix(PREFIX) if GROUP in user.groups and user.name.startswith(PREFIX) else None
