"""What the rooms of the API server know of each other: values that describe a request, and ports that kinds fill.

A request passes through here in one order, whatever its kind and verb:

    body -> defaults -> admission (may change the object) -> strategy prepares -> strategy validates
         -> validating admission -> one store transaction

Inside the server an object is a plain dict in the shape of its kind; its `metadata.resourceVersion` is that of the
store's revision when it was read. `prepare_*`, `default` and `admit` change the object they are given in place; every
other function leaves its arguments alone. Refusals are `rota.api.errors.ApiError`s, complaints about fields are values.
Nothing here does I/O.
"""

import enum
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

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
#: Clients refuse answers with a hundred headers and more.
_MOST_WARNINGS: Final = 50
#: Who asks, as far as authentication found out.
User: TypeAlias = users.User


class Damaged(errors.InternalError):
    """What the store holds in the place of an object is none: a disk or a program other than the server changed it."""

    def __init__(self, key: str) -> None:
        why = f"the value of {key} in the store is damaged; delete the object or restore a backup"
        super().__init__(f"Internal error occurred: {why}")
        self.key: Final = key


class LeaderFence(Struct, frozen=True):
    """In which leader's term a request is made: it is carried out only while that lasts."""

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
    #: When the request came in: every time that it writes is this one.
    now: float
    subresource: str = ""
    namespace: str = ""
    #: Empty in creations until a name is known, and in collections.
    name: str = ""
    dry_run: bool = False
    field_manager: str = ""
    #: Where the client is that writes; empty if in this process.
    address: str = ""
    #: Whose term the request belongs to, if it says so.
    fence: LeaderFence | None = None
    #: Whether rules ask the store itself because what they knew from memory turned out to be old.
    fresh: bool = False
    #: Texts for the client's user, sent as `Warning` headers in this order.
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Tell the client's user something without refusing the request."""
        if len(self.warnings) < _MOST_WARNINGS and text not in self.warnings:
            self.warnings.append(text)


class Strategy(Protocol):
    """The rules of one kind. `strategies.generic` holds those that all kinds share, and is the fallback.

    Updates of subresources come here too: `at.subresource` says which part of the object may change.
    """

    def default(self, obj: Object, /) -> None:
        """Fill in what the client left out, before admission; must not depend on anything but the object."""
        ...

    def default_status(self, obj: Object, /) -> None:
        """Fill in what the client left out of an object whose status it writes."""
        ...

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """Bring a new object into its initial state: clear what clients cannot set, set what the kind starts with."""
        ...

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Put back what this request cannot change, and bump the generation if what it may change did change."""
        ...

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Everything that is wrong with a new object."""
        ...

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Everything that is wrong with a changed object, immutable fields included."""
        ...


#: Which strategy a kind has; asked on every write, so it only looks things up.
StrategyLookup: TypeAlias = Callable[[ResourceType], Strategy]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionExtras:
    """What has to go with a write or hold for it to happen: a quota's new usage, a namespace that is still there.

    The writes and guards join the object's own transaction. If a guard no longer holds, admission runs again.
    """

    writes: tuple[Put, ...] = ()
    guards: tuple[Precondition, ...] = ()


class AdmissionFingerprint(Struct, frozen=True):
    """All that the rules about new objects of a kind go by besides the object and its field manager.

    While two standings are equal, objects that differ only in their names are let in alike and come out alike.
    """

    #: What has to hold for the write.
    guards: tuple[Precondition, ...]
    #: Tells apart the states of what else rules go by.
    rules: int


class Admission(Protocol):
    """A rule that looks beyond the object itself."""

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Let the request pass, change `new` in place, or raise an ApiError.

        `old` is None when an object is created, `new` when one is deleted. It may run several times for one request and
        must not write anything itself: writes ride along, and nothing is written in a dry run.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object as read from the store; the dict is the reader's own."""

    key: str
    object: Object
    revision: int
    #: The revision that created it, which tells incarnations apart (see `store.contract.Precondition.created`).
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


#: Makes the next state from the present one; it may raise an ApiError, and runs again when somebody else was faster.
Change: TypeAlias = Callable[[Object], Object]


class Registry(Protocol):
    """The objects behind the API, for those who do more than the generic verbs do."""

    @property
    def store(self) -> Store:
        """For transactions over several keys (keys are made by `rota.api.keys`)."""
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
        """One object as of now; NotFound if there is none."""
        ...

    async def find(self, resource: ResourceType, namespace: str, name: str, /) -> Stored | None:
        """One object as of now, if there is one."""
        ...

    async def list(self, resource: ResourceType, namespace: str | None = None, /) -> Sequence[Stored]:
        """All objects of a kind, or those of one namespace, as of one revision."""
        ...

    async def rewrite(self, at: Attributes, stored: Stored, change: Change, /) -> Object:
        """Change an object on the server's own account: no admission, no strategy, no managed fields.

        `stored` is what the caller read; on a conflict the object is read again and `change` runs again. NotFound when
        it is gone or another object has taken its name. A dry run computes the result and writes nothing.
        """
        ...

    async def delete(self, at: Attributes, options: DeleteOptions, /) -> Object:
        """Delete the object that `at` names, by the rules of the DELETE verb: grace, finalizers, preconditions."""
        ...

    async def commit(self, at: Attributes, transaction: Transaction, /) -> Outcome:
        """Carry out a transaction; in a dry run check its guards and write nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubresourceRequest:
    """A request for a subresource with a behaviour of its own; `at` names the parent object."""

    at: Attributes
    method: str
    #: The decoded body; None where the method has none.
    body: Object | None
    #: Query parameters; of repeated ones the first.
    query: Mapping[str, str]
    #: All parameters, as they were sent.
    raw_query: bytes = b""
    #: Lower-case names to last values.
    headers: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An object as the answer, sent in the representation that the client asked for."""

    object: Object
    code: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Bytes as the answer, sent as they come; the iterator is closed when the client goes away."""

    content_type: str
    chunks: AsyncIterator[bytes]


class Duplex(Protocol):
    """Bytes in both directions."""

    async def read(self) -> bytes:
        """What came next; empty at the end."""
        ...

    async def write(self, data: bytes, /) -> None:
        """Send, as fast as the other side takes it."""
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """The client's connection, handed on to another server that has agreed; both are closed when either ends."""

    peer: Duplex
    #: What that server said when it agreed, for the client.
    headers: tuple[tuple[bytes, bytes], ...]


class SubresourceHandler(Protocol):
    """A subresource that is an action or a stream: binding, eviction, log."""

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply | Stream | Tunnel:
        """Do it, or raise an ApiError."""
        ...


class Projection(Protocol):
    """A subresource that shows part of its parent as another kind: scale. GET, PUT and all patches follow from it."""

    def project(self, parent: Object, resource: ResourceType, /) -> Object:
        """The subresource's object, with the parent's name, uid and resourceVersion."""
        ...

    def inject(self, parent: Object, value: Object, resource: ResourceType, /) -> Object:
        """The parent with the subresource's new value; the rest of the update is the parent's own."""
        ...

    def validate(self, value: Object, /) -> list[fields.FieldError]:
        """Everything that is wrong with the subresource's object itself."""
        ...


class CustomSchema(Protocol):
    """One served version of a custom kind, from its definition's structural schema."""

    @property
    def openapi(self) -> Mapping[str, Any] | None:
        """The structural schema as it stands in the definition; None if the version has none."""
        ...

    @property
    def merge_schema(self) -> TypeSchema:
        """How server-side apply merges objects of this version."""
        ...

    @property
    def selectable_fields(self) -> Mapping[str, fieldselectors.Reader]:
        """What field selectors may name besides name and namespace."""
        ...

    @property
    def printer_columns(self) -> Sequence[Mapping[str, Any]]:
        """`additionalPrinterColumns` of this version, as they stand in the definition."""
        ...

    @property
    def deprecation_warning(self) -> str:
        """What users of this version are warned with; empty if it is not deprecated."""
        ...

    def clean(self, obj: Object, /) -> tuple[Object, list[str]]:
        """The object with defaults and without undeclared fields, and the paths of those; types are not judged here."""
        ...


#: The schema of a custom kind; asked for kinds whose `ResourceType.custom` is true.
SchemaLookup: TypeAlias = Callable[[ResourceType], CustomSchema]


class Copy(Protocol):
    """A kind in memory that follows the store (`followed.Followed`)."""

    async def reach(self, revision: int, /) -> bool:
        """Wait until everything up to a revision is known; False if that does not come to pass soon."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """All that kinds bring along, as the generic server takes it in."""

    strategy: StrategyLookup
    custom_schema: SchemaLookup
    #: In the order in which they run, before validation; they may change the object.
    mutating: tuple[Admission, ...] = ()
    #: After validation; they may only refuse.
    validating: tuple[Admission, ...] = ()
    handlers: Mapping[tuple[GroupResource, str], SubresourceHandler] = field(default_factory=dict)
    #: By subresource name, for every resource that has a subresource of that name.
    projections: Mapping[str, Projection] = field(default_factory=dict)
    #: Kinds that rules go by from memory. A write of one is answered once its copy has it, so that whoever made a limit
    #: or a role finds it in force on this server with the next request.
    copies: Mapping[GroupResource, Copy] = field(default_factory=dict)
    #: How the rules about an object that is created stand; None where each object has to be asked about.
    admission_fingerprint: Callable[[Attributes], AdmissionFingerprint | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a request brings along that can tell who sent it."""

    #: Lower-case names to last values.
    headers: Mapping[bytes, bytes]
    #: The client's certificate (DER), which TLS has verified against the authorities that clients may have; else None.
    peer_certificate: bytes | None = None
    #: The client's address; empty if it is in this process.
    address: str = ""


class Authenticator(Protocol):
    """Finds out who asks."""

    async def authenticate(self, credentials: Credentials, /) -> User:
        """The user behind a request; raises Unauthorized if that cannot be told."""
        ...


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a user may do something: to a resource, or, where there is a `path`, with a page that is none."""

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    #: Empty for collections, and for creations, whose names are not known when they are asked about.
    name: str = ""
    path: str | None = None
    #: What a list, watch or deletion of a collection is limited to.
    fields: fieldselectors.FieldSelector = fieldselectors.EVERYTHING


class Decision(enum.Enum):
    """The outcome of a question."""

    ALLOWED = "allowed"
    #: Nobody further down the chain is asked.
    DENIED = "denied"
    #: Refused unless somebody further down the chain allows it.
    NO_OPINION = "no opinion"


class Verdict(msgspec.Struct, frozen=True):
    """A decision and, where there is something to say, why."""

    decision: Decision
    reason: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the user may."""
        return self.decision is Decision.ALLOWED


NO_OPINION: Final = Verdict(Decision.NO_OPINION)


class Authorizer(Protocol):
    """Says who may do what."""

    async def authorize(self, question: Question, /) -> Verdict:
        """Whether the user may; anything but `ALLOWED` is a refusal in the end."""
        ...
