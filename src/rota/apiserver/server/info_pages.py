"""The pages that describe the server: version, discovery, OpenAPI."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from rota.api.kinds import ResourceType, Subresource
from rota.api.scheme import Scheme
from rota.apiserver.discovery import NO_GROUPS, Discovery, ForeignGroups
from rota.apiserver.http import cached_documents, responses
from rota.apiserver.http.cached_documents import Document
from rota.apiserver.http.requests import Request
from rota.apiserver.interfaces import Kinds
from rota.apiserver.openapi.v2 import OpenApiV2
from rota.apiserver.openapi.v3 import OpenApiV3
from rota.apiserver.server import health, verb_dispatch


class InfoPages:
    """The pages about the server, built from its scheme."""

    def __init__(self, scheme: Scheme, kinds: Kinds, foreign: ForeignGroups = NO_GROUPS) -> None:
        def schema_of(resource: ResourceType) -> Mapping[str, Any] | None:
            return kinds.custom_schema(resource).openapi if resource.custom else None

        def shown(resource: ResourceType, part: Subresource) -> bool:
            return verb_dispatch.is_served(kinds, resource, part)

        self._version: Final = health.version()
        self._discovery: Final = Discovery(scheme, shown=shown, foreign=foreign)
        self._openapi_v3: Final = OpenApiV3(scheme, schema_of=schema_of, version=self._version["gitVersion"])
        self._openapi_v2: Final = OpenApiV2(scheme, self._openapi_v3)

    async def page(self, request: Request) -> responses.Response | None:
        """The page at the request's path, if there is one."""
        if request.path.rstrip("/") == "/version":
            return responses.value(200, self._version)
        document = await self._document(request.path.rstrip("/"), request.header(b"accept"))
        return None if document is None else cached_documents.respond(document, request.header(b"if-none-match"))

    async def _document(self, path: str, accept: str) -> Document | None:
        if path in {"/api", "/apis"} or path.startswith(("/api/", "/apis/")):
            return self._discovery.document(path, accept)
        # building OpenAPI for everything takes a good part of a second
        if path == "/openapi/v2":
            return await asyncio.to_thread(self._openapi_v2.document, accept)
        if path == "/openapi/v3" or path.startswith("/openapi/v3/"):
            return await asyncio.to_thread(self._openapi_v3.document, path)
        return None
