"""The interfaces inside the API server: values that describe a request, and protocols that kinds implement.

A write passes these steps in one order, whatever its kind and verb:

    body -> defaults -> admission (may change the object) -> strategy prepares -> strategy validates
         -> validating admission -> one store transaction

Inside the server an object is a plain dict in the shape of its kind; its `metadata.resourceVersion` is the store's
revision at which it was read. `prepare_*`, `default` and `admit` change their object in place; every other function
leaves its arguments alone. Refusals are `rota.api.errors.ApiError`s, errors about fields are values. No I/O here.
"""

import enum
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from rota.api import errors, fields, fieldselectors, users
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.api.patches.schemas import TypeSchema
from rota.api.scheme import Scheme
from rota.kit.clock import Clock
from rota.store.store_interface import Outcome, Precondition, Put, Store, Transaction

Object: TypeAlias = dict[str, Any]
#: Clients refuse responses with a hundred headers or more.
_MOST_WARNINGS: Final = 50
#: The authenticated user.
User: TypeAlias = users.User


class Damaged(errors.InternalError):
    """The stored value is not an object: a disk or a program other than the server changed it."""

    def __init__(self, key: str) -> None:
        why = f"the value of {key} in the store is damaged; delete the object or restore a backup"
        super().__init__(f"Internal error occurred: {why}")
        self.key: Final = key


class LeaderFence(Struct, frozen=True):
    """The leader term in which a request is made: it takes effect only while the term lasts."""

    namespace: str
    name: str
    transitions: int
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """One request as strategies, admission and subresources see it."""

    user: User
    #: The verb of authorization: get, list, watch, create, update, patch, delete, deletecollection.
    verb: str
    resource: ResourceType
    #: When the request arrived: every timestamp that it writes is this one.
    now: float
    subresource: str = ""
    namespace: str = ""
    #: Empty for creations until a name is known, and for collections.
    name: str = ""
    dry_run: bool = False
    field_manager: str = ""
    #: The client's address for writes; empty if in this process.
    address: str = ""
    #: The leader term that the request belongs to, if it names one.
    fence: LeaderFence | None = None
    #: Whether rules must read the store because their caches turned out to be outdated.
    fresh: bool = False
    #: Whether the server has chosen the name of a new object, by its `generateName`.
    generated_name: bool = False
    #: The query parameters of a write, and the body of a deletion.
    parameters: Mapping[str, str] = field(default_factory=dict)
    delete_options: Mapping[str, Any] | None = None
    #: Messages for the client's user, sent as `Warning` headers in this order.
    warnings: list[str] = field(default_factory=list)
    #: What admission adds to the audit event.
    annotations: dict[str, str] = field(default_factory=dict)
    #: What a webhook has converted for the bookkeeping of this request, by version and former content.
    converted: dict[tuple[str, bytes], Object] = field(default_factory=dict)

    def warn(self, text: str) -> None:
        """Warn the client's user without refusing the request."""
        if len(self.warnings) < _MOST_WARNINGS and text not in self.warnings:
            self.warnings.append(text)


class Strategy(Protocol):
    """The rules of one kind. `strategies.generic` has those that all kinds share, and is the fallback.

    Updates of subresources use it too: `at.subresource` says which part of the object may change.
    """

    def default(self, obj: Object, /) -> None:
        """Set defaults before admission; must not depend on anything but the object."""
        ...

    def default_status(self, obj: Object, /) -> None:
        """Set defaults in the status of an object whose status the client writes."""
        ...

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Initialize a new object: clear fields that clients cannot set, set initial values."""
        ...

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Restore fields that this request cannot change, and bump the generation if the spec changed."""
        ...

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """All errors of a new object."""
        ...

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """All errors of a changed object, immutable fields included."""
        ...


#: The strategy of a kind; called on every write, so it only looks things up.
StrategyLookup: TypeAlias = Callable[[ResourceType], Strategy]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionExtras:
    """Writes and preconditions that join an object's transaction: a quota's new usage, a namespace that must still
    exist.

    If a precondition no longer holds, admission runs again.
    """

    writes: tuple[Put, ...] = ()
    guards: tuple[Precondition, ...] = ()


#: Stands for the user of the request in `Admission.pod_reads`.
REQUESTER: Final = GroupResource("", "users")


class AdmissionFingerprint(Struct, frozen=True):
    """Everything that admission of new objects of a kind depends on besides the object and its field manager.

    While two fingerprints are equal, objects that differ only in their names are admitted and changed alike.
    """

    #: The preconditions of the write.
    guards: tuple[Precondition, ...]
    #: Distinguishes the states of everything else that rules read.
    rules: int


class Admission(Protocol):
    """An admission plugin: a rule that reads more than the object itself."""

    #: The state besides the object that decides how a *new pod* is admitted: kinds, and `REQUESTER` for the user.
    #: Templates of admitted pods are reused while that state is unchanged, so `admission.fingerprint` must cover all
    #: of it; a server with a plugin whose state is not covered does not start.
    pod_reads: ClassVar[frozenset[GroupResource]]

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Admit the request, change `new` in place, or raise an ApiError.

        `old` is None when an object is created, `new` when one is deleted. It may run several times for one request and
        must not write anything itself: it returns writes for the transaction, and a dry run writes nothing.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object as read from the store; the dict belongs to the reader."""

    key: str
    object: Object
    revision: int
    #: The revision that created it, which identifies the incarnation (see `store_interface.Precondition.created`).
    created: int
    #: The size of its stored form.
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """The body of a deletion."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    precondition_uid: str | None = None
    precondition_resource_version: str | None = None


#: Computes the next state from the present one; it may raise an ApiError, and runs again after a conflict.
Change: TypeAlias = Callable[[Object], Object]


class Registry(Protocol):
    """The objects behind the API, for handlers that do more than the generic verbs."""

    @property
    def store(self) -> Store:
        """For transactions over several keys (`rota.api.keys` builds keys)."""
        ...

    @property
    def scheme(self) -> Scheme:
        """All kinds, custom ones included."""
        ...

    @property
    def clock(self) -> Clock:
        """For waiting; the time of a request is `Attributes.now`."""
        ...

    def resource(self, group_resource: GroupResource, /) -> ResourceType:
        """The preferred version of a resource that is known to exist."""
        ...

    def encode(self, obj: Object, /) -> bytes:
        """The stored form of an object (no resourceVersion), for a `Put`."""
        ...

    async def read(self, resource: ResourceType, namespace: str, name: str, /) -> Stored:
        """The current state of one object; NotFound if there is none."""
        ...

    async def find(self, resource: ResourceType, namespace: str, name: str, /) -> Stored | None:
        """The current state of one object, if it exists."""
        ...

    async def list(self, resource: ResourceType, namespace: str | None = None, /) -> Sequence[Stored]:
        """All objects of a kind, or those of one namespace, at one revision."""
        ...

    async def rewrite(self, at: Attributes, stored: Stored, change: Change, /) -> Object:
        """Change an object on behalf of the server: no admission, no strategy, no managed fields.

        `stored` is what the caller read; on a conflict the object is read again and `change` runs again. NotFound if it
        is gone or replaced by another object of its name. A dry run computes the result and writes nothing.
        """
        ...

    async def delete(self, at: Attributes, options: DeleteOptions, /) -> Object:
        """Delete the object that `at` names, by the rules of the DELETE verb: grace, finalizers, preconditions."""
        ...

    async def commit(self, at: Attributes, transaction: Transaction, /) -> Outcome:
        """Commit a transaction; a dry run checks its preconditions and writes nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubresourceRequest:
    """A request for a subresource with its own handler; `at` names the parent object."""

    at: Attributes
    method: str
    #: The decoded body; None if the method has none.
    body: Object | None
    #: Query parameters; of repeated ones the first.
    query: Mapping[str, str]
    #: All parameters, as they were sent.
    raw_query: bytes = b""
    #: Lower-case names to last values.
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    #: Of a proxied request: the rest of its path as it was sent, the path before it, and the body as it was sent.
    tail: str = ""
    prefix: str = ""
    content: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An object as the response, in the representation that the client asked for."""

    object: Object
    code: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream of bytes as the response; the iterator is closed when the client disconnects."""

    content_type: str
    chunks: AsyncIterator[bytes]
    code: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Duplex(Protocol):
    """Bytes in both directions."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...

    async def write(self, data: bytes, /) -> None:
        """Send; waits while the other side does not read."""
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """The client's connection, handed over to another server that has accepted it; both are closed when either ends."""

    peer: Duplex
    #: The other server's response, for the client.
    headers: tuple[tuple[bytes, bytes], ...]


class SubresourceHandler(Protocol):
    """A subresource that is an action or a stream: binding, eviction, log."""

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply | Stream | Tunnel:
        """Handle the request, or raise an ApiError."""
        ...


class Projection(Protocol):
    """A subresource that shows part of its parent as another kind: scale. GET, PUT and all patches follow from it."""

    def project(self, parent: Object, resource: ResourceType, /) -> Object:
        """The subresource's object, with the parent's name, uid and resourceVersion."""
        ...

    def inject(self, parent: Object, value: Object, resource: ResourceType, /) -> Object:
        """The parent with the subresource's new value; the rest of the update is that of the parent."""
        ...

    def validate(self, value: Object, /) -> list[fields.FieldError]:
        """All errors of the subresource's object itself."""
        ...


class CustomSchema(Protocol):
    """One served version of a custom kind, from its definition's structural schema."""

    @property
    def openapi(self) -> Mapping[str, Any] | None:
        """The structural schema as it is in the definition; None if the version has none."""
        ...

    @property
    def merge_schema(self) -> TypeSchema:
        """How server-side apply merges objects of this version."""
        ...

    @property
    def selectable_fields(self) -> Mapping[str, fieldselectors.Reader]:
        """Fields for field selectors besides name and namespace."""
        ...

    @property
    def printer_columns(self) -> Sequence[Mapping[str, Any]]:
        """`additionalPrinterColumns` of this version, as in the definition."""
        ...

    @property
    def deprecation_warning(self) -> str:
        """The deprecation warning; empty if the version is not deprecated."""
        ...

    def clean(self, obj: Object, /) -> tuple[Object, list[str]]:
        """The object with defaults and without undeclared fields, and the paths of those; types are not checked
        here.
        """
        ...


#: The schema of a custom kind; called for kinds whose `ResourceType.custom` is true.
SchemaLookup: TypeAlias = Callable[[ResourceType], CustomSchema]


class Conversion(Protocol):
    """Converts objects of a custom kind whose versions differ in more than their names."""

    #: The apiVersion in which objects are stored.
    storage_version: str

    async def convert(self, objects: Sequence[Object], api_version: str, /) -> list[Object]:
        """The objects in another version; InternalError if they cannot be converted."""


class Copy(Protocol):
    """A kind in memory that follows the store (`cache.watch_cache.WatchCache`)."""

    async def reach(self, revision: int, /) -> bool:
        """Wait until everything up to a revision is known; False on timeout."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Everything that the generic server needs from kinds."""

    strategy: StrategyLookup
    custom_schema: SchemaLookup
    conversion: Callable[[ResourceType], Conversion | None] = lambda _: None
    #: In the order in which they run, before validation; they may change the object.
    mutating: tuple[Admission, ...] = ()
    #: After validation; they may only refuse.
    validating: tuple[Admission, ...] = ()
    handlers: Mapping[tuple[GroupResource, str], SubresourceHandler] = field(default_factory=dict)
    #: By subresource name, for every resource that has a subresource of that name.
    projections: Mapping[str, Projection] = field(default_factory=dict)
    #: Cached kinds that rules read. The response to a write of one is sent once its cache has it, so that a new limit
    #: or role is in force on this server with the next request.
    copies: Mapping[GroupResource, Copy] = field(default_factory=dict)
    #: The admission fingerprint of an object that is created; None if each object must be admitted.
    admission_fingerprint: Callable[[Attributes], AdmissionFingerprint | None] = lambda _: None
    #: Whether policies that users bring are in force: then no write skips admission.
    has_policies: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The data of a request that identify its user."""

    #: Lower-case names to last values.
    headers: Mapping[bytes, bytes]
    #: The client's certificate (DER), which TLS has verified against the client authorities; else None.
    peer_certificate: bytes | None = None
    #: The client's address; empty if it is in this process.
    address: str = ""
    #: The path of the request.
    path: str = ""


class Authenticator(Protocol):
    """Authenticates requests."""

    def recall(self, credentials: Credentials, /) -> User | None:
        """The user of a request that needs no verification: its credentials were valid a moment ago, or it has none."""
        ...

    def flow(self, credentials: Credentials, /) -> str:
        """By what requests are counted before their user is known; see `flow_control.authentication_gate`."""
        ...

    async def authenticate(self, credentials: Credentials, /) -> User:
        """The user of a request; raises Unauthorized if authentication fails."""
        ...


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of an authorization: a user's access to a resource, or to a non-resource `path`."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    #: Empty for collections, and for creations, whose names are not known yet.
    name: str = ""
    path: str | None = None
    #: The selectors of a list, watch or deletion of a collection.
    fields: fieldselectors.FieldSelector = fieldselectors.EVERYTHING


class Decision(enum.Enum):
    """The result of an authorization."""

    ALLOWED = "allowed"
    #: No later authorizer of the chain is called.
    DENIED = "denied"
    #: Refused unless a later authorizer of the chain allows it.
    NO_OPINION = "no opinion"


class Verdict(msgspec.Struct, frozen=True):
    """A decision and, if there is one, its reason."""

    decision: Decision
    reason: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the user may."""
        return self.decision is Decision.ALLOWED


NO_OPINION: Final = Verdict(Decision.NO_OPINION)


class Authorizer(Protocol):
    """Authorizes requests."""

    async def authorize(self, question: Question, /) -> Verdict:
        """The decision about a request; anything but `ALLOWED` is a refusal in the end."""
        ...
