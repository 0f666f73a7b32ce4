"""The pages that describe the server: version, discovery, OpenAPI."""

from typing import Final

from rota.api.scheme import Scheme
from rota.apiserver import documents, health, responses
from rota.apiserver.discovery import Discovery
from rota.apiserver.requests import Request


class Pages:
    """All that a server tells of itself, made from its scheme."""

    def __init__(self, scheme: Scheme) -> None:
        self._discovery: Final = Discovery(scheme)
        self._version: Final = health.version()

    async def page(self, request: Request) -> responses.Response | None:
        """The page at the request's path, if there is one."""
        if request.path in {"/version", "/version/"}:
            return responses.value(200, self._version)
        if request.path.startswith(("/api", "/apis")):
            document = self._discovery.document(request.path, request.header(b"accept"))
            return None if document is None else documents.respond(document, request.header(b"if-none-match"))
        return None
