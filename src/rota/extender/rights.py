"""The permissions that the extender needs at the API server."""

from rota.client.rights import Right, table


def needed(*, binds: bool) -> tuple[Right, ...]:
    """All permissions of an extender."""
    return (*table("list,watch", "nodes,pods"), *(table("create", "pods/binding") if binds else ()))
