"""One routed request in a verb, and the parameters that several verbs share."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.api import errors, fields
from rota.api.identifiers import GroupKind, GroupResource, GroupVersionKind
from rota.api.kinds import ResourceType
from rota.apiserver import bodies
from rota.apiserver.cache import decoded_bodies
from rota.apiserver.http import negotiation
from rota.apiserver.http.requests import Request
from rota.apiserver.interfaces import Attributes, CustomSchema, LeaderFence, Object, User
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.routing import Route
from rota.apiserver.strategies.metadata import MANAGER_LENGTH, validate_manager
from rota.kit import offload
from rota.store.store_interface import Store

#: Deprecated versions, with the replacement for the warning.
DEPRECATED: Final = {
    GroupResource("", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
    GroupResource("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_TERM: Final = b"rota-term"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request with everything that is known of it."""

    request: Request
    route: Route
    at: Attributes
    registry: ObjectRegistry
    accepted: negotiation.Accepted

    @property
    def resource(self) -> ResourceType:
        """The requested resource."""
        return self.route.resource

    @property
    def store(self) -> Store:
        """The store, with the objects of the requested resource in its version."""
        return self.registry.store_of(self.resource)

    @property
    def schema(self) -> CustomSchema | None:
        """The schema of a custom kind."""
        return self.registry.kinds.custom_schema(self.resource) if self.resource.custom else None

    @property
    def body_kind(self) -> tuple[GroupVersionKind, str | None]:
        """The kind of the request's body, and its model."""
        part = self.resource.subresources.get(self.route.subresource)
        return (self.resource.gvk, self.resource.model) if part is None else (part.kind, part.model)

    async def object_body(self) -> Object:
        """The request's body as an object of the expected kind."""
        return await self.object_from(await self.request.body())

    async def object_from(self, body: bytes) -> Object:
        """As `object_body`, for a body that was read already."""
        return await offload.run(functools.partial(self.object_in, body), self.weight(body))

    def weight(self, body: bytes) -> int:
        """The work of a body, as the size of an equivalent JSON body: YAML is parsed ten times slower."""
        return len(body) * (1 if bodies.media_type(self.request.header(b"content-type")) == bodies.JSON else 10)

    def object_in(self, body: bytes) -> Object:
        """As `object_from`, for a small body."""
        strictness = bodies.strictness(self.request.query.get("fieldValidation", ""))
        content_type = self.request.header(b"content-type")
        if self.resource.custom and bodies.media_type(content_type) == bodies.PROTOBUF:
            raise errors.unsupported_media_type((bodies.JSON, bodies.YAML))
        gvk, model = self.body_kind
        try:
            return decoded_bodies.read(
                body,
                content_type,
                self.resource,
                gvk=gvk,
                model=model,
                schema=self.schema if gvk == self.resource.gvk else None,
                strictness=strictness,
                warn=self.at.warn,
            )
        except bodies.Unreadable as error:
            raise bodies.unrecognized(gvk.kind, error, body) from None

    def shaped(
        self, parsed: bodies.Parsed, strictness: bodies.Strictness, *, unknown: list[str] | None = None
    ) -> Object:
        """Values in the shape of the expected kind; errors become warnings or a refusal.

        The paths of unknown fields are added to `unknown`.
        """
        gvk, model = self.body_kind
        schema = self.schema if gvk == self.resource.gvk else None
        return bodies.as_object(
            parsed,
            self.resource,
            gvk=gvk,
            model=model,
            schema=schema,
            strictness=strictness,
            warn=self.at.warn,
            found=unknown if unknown is not None else [],
        )

    def place(self, obj: Object) -> None:
        """Set the namespace and name of the request's path, or refuse different ones."""
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        # a list or a map is possible here: an applied configuration gets the shape of its kind later
        if self.at.namespace and namespace not in ("", self.at.namespace):
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if self.at.namespace:
            metadata["namespace"] = self.at.namespace
        else:
            metadata.pop("namespace", None)
        name = metadata.get("name", "")
        if not self.at.name:
            return
        if not name:
            raise errors.bad_request(
                f"the name of the object ({self.at.name} based on URL) was undeterminable: name must be provided"
            )
        if name != self.at.name:
            raise errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({self.at.name})"
            )


def attributes(request: Request, route: Route, user: User, *, now: float) -> Attributes:
    """The request's attributes; Invalid if the parameters that all writes share are wrong.

    The patch verb checks its own parameters, which are more.
    """
    dry_run, manager, address, fence = False, "", "", None
    query: Mapping[str, str] = {}
    if route.verb in _WRITES:
        query = request.query
        if query and route.verb != "patch" and (wrong := wrong_options(query, with_body=route.verb in _WITH_BODY)):
            if route.verb in _WITH_BODY and bodies.media_type(request.header(b"content-type")) not in bodies.READ:
                raise errors.unsupported_media_type(bodies.READ)
            raise errors.invalid(GroupKind("meta.k8s.io", _WRITES[route.verb]), "", wrong)
        dry_run = query.get("dryRun") == "All"
        manager = query.get("fieldManager", "") or _from_user_agent(request.header(b"user-agent"))
        address = request.address
        fence = _fence(request)
    return Attributes(
        user=user,
        verb=route.verb,
        resource=route.resource,
        now=now,
        subresource=route.subresource,
        namespace=route.namespace,
        name=route.name,
        dry_run=dry_run,
        field_manager=manager,
        address=address,
        fence=fence,
        parameters=query,
    )


_WRITES: Final = {
    "create": "CreateOptions",
    "update": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
}
_WITH_BODY: Final = frozenset({"create", "update"})


def wrong_options(query: Mapping[str, str], *, with_body: bool) -> list[fields.FieldError]:
    """The errors in the parameters that writes share, in upstream's order."""
    value = query.get("dryRun", "")
    manager = validate_manager(query.get("fieldManager", ""), fields.Path("fieldManager"))
    wrong = manager + wrong_dry_run([value] if value else [])
    return wrong + (bodies.wrong_strictness(query.get("fieldValidation", "")) if with_body else [])


def wrong_dry_run(values: Sequence[str]) -> list[fields.FieldError]:
    """The errors in the `dryRun` parameter, a list with only one allowed value."""
    if all(value == "All" for value in values):
        return []
    return [fields.not_supported(fields.Path("dryRun"), list(values), ["All"])]


def _fence(request: Request) -> LeaderFence | None:
    """The leader term of a request: `namespace/name/transitions/holder` of a Lease."""
    said = request.headers.get(_TERM)
    if said is None:
        return None
    namespace, _, rest = said.decode("latin-1").partition("/")
    name, _, rest = rest.partition("/")
    transitions, _, holder = rest.partition("/")
    if not namespace or not name or not transitions.isdecimal() or not holder:
        raise errors.bad_request("the header Rota-Term is not namespace/name/transitions/holder of a Lease")
    return LeaderFence(namespace, name, int(transitions), holder)


@functools.lru_cache(maxsize=512)
def _from_user_agent(agent: str) -> str:
    """The default field manager: the program name in the user agent."""
    program = agent.partition("/")[0]
    return "".join(character for character in program if character.isprintable())[:MANAGER_LENGTH]
