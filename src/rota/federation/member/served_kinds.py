"""Which resource serves a kind, asked of an API server and remembered."""

from typing import Final, TypeAlias

from rota.api.kinds import ResourceType
from rota.client import discovery
from rota.client.verbs import Client

#: An apiVersion and a kind.
Kind: TypeAlias = tuple[str, str]


class NotServed(LookupError):
    """The server does not serve a kind."""


class Types:
    """The resources of one server."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client
        self._known: dict[Kind, ResourceType] = {}

    async def refresh(self) -> dict[Kind, ResourceType]:
        """Ask the server for all it serves."""
        found = await discovery.discover(self._client)
        self._known = {(one.api_version, one.kind): one for one in found.types}
        return self._known

    async def of(self, kind: Kind) -> ResourceType:
        """The resource of a kind; the server is asked if it is not known."""
        found = self._known.get(kind) or (await self.refresh()).get(kind)
        if found is None:
            raise NotServed(f"{kind[0]} {kind[1]} is not served")
        return found
