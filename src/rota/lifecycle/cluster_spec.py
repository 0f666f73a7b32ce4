"""The file of `rota cluster`: which machines form a cluster, with which store and release.

    apiVersion: rota.dev/v1alpha1
    kind: Cluster
    metadata: {name: lab}
    spec:
      store: postgresql://rota@db/rota
      bundle: rota.bundle
      ssh: {user: root, identityFile: id_ed25519}
      masters:
        - {name: m1, address: 10.0.0.1}
      workers:
        - {name: w1, address: 10.0.1.1, labels: {disk: ssd}}

`parse` refuses what it does not know, by the path of the field, so that a misspelt option is not ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Final

from rota.api import names
from rota.kit import errors

API_VERSION: Final = "rota.dev/v1alpha1"
KIND: Final = "Cluster"
#: The address of members on the machine that runs the command.
LOCAL: Final = "local"
#: The store of a single master: a SQLite file in its data folder.
SQLITE: Final = "sqlite"
_STORES: Final = ("postgresql://", "postgres://", "etcd://", "etcds://")
_MASTER_PORT: Final = 6443
_WORKER_PORT: Final = 10_250
_LAST_PORT: Final = 65_535
#: Room for the cluster's name and the member's name in the name of a systemd unit.
_LONGEST_NAME: Final = 63


class Role(StrEnum):
    """What a member is."""

    MASTER = "master"
    WORKER = "worker"


class Manager(StrEnum):
    """What keeps a member's process running."""

    SYSTEMD = "systemd"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """How machines are reached; empty fields leave the choice to the configuration of ssh."""

    user: str = ""
    port: int = 0
    identity_file: str = ""
    known_hosts_file: str = ""
    #: Whether commands on the machine are run by `sudo -n`.
    sudo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A master or a worker."""

    name: str
    role: Role
    #: The name or address for ssh, or `local`.
    address: str
    #: The address on which a master serves, and which others use.
    serves_on: str
    port: int
    #: Further options of `rota master` or `rota worker`.
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster as its file wants it."""

    name: str
    #: A URL, or `sqlite`.
    store: str
    #: The folder on every machine; each member has a folder of its own in it.
    folder: str
    manager: Manager
    ssh: Ssh
    members: tuple[Member, ...]
    #: The path of the bundle to install; empty if `program` is used.
    bundle: str = ""
    #: The path of a `rota` that every machine has already; empty if a bundle is installed.
    program: str = ""
    #: The Python that makes the environment of a bundle.
    python: str = "python3"

    @property
    def masters(self) -> tuple[Member, ...]:
        """The masters, in the order of the file."""
        return tuple(one for one in self.members if one.role is Role.MASTER)

    @property
    def workers(self) -> tuple[Member, ...]:
        """The workers, in the order of the file."""
        return tuple(one for one in self.members if one.role is Role.WORKER)

    def member(self, name: str) -> Member | None:
        """A member by its name."""
        return next((one for one in self.members if one.name == name), None)


def parse(document: Any) -> ClusterSpec:
    """Read the content of a file; a UserError names the field that is wrong."""
    top = _Fields(document, "")
    if top.text("apiVersion") != API_VERSION or top.text("kind") != KIND:
        raise _wrong("apiVersion, kind", f"write apiVersion: {API_VERSION} and kind: {KIND}")
    metadata, spec = top.fields("metadata"), top.fields("spec")
    top.end()
    name = _name(metadata, "name")
    metadata.end()
    store = spec.text("store", SQLITE)
    if store != SQLITE and not store.startswith(_STORES):
        raise _wrong("spec.store", f"write {SQLITE}, postgresql://... or etcd://...")
    masters = [_master(one) for one in spec.items("masters")]
    workers = [_worker(one) for one in spec.items("workers", required=False)]
    _check_members(masters, workers, store)
    bundle, program = spec.text("bundle", ""), spec.text("program", "")
    if bool(bundle) == bool(program):
        raise _wrong("spec.bundle, spec.program", "name either a bundle to install or a program that the machines have")
    if program and not PurePosixPath(program).is_absolute():
        raise _wrong("spec.program", "write an absolute path")
    folder = spec.text("folder", f"/var/lib/rota-{name}")
    if not PurePosixPath(folder).is_absolute() or len(PurePosixPath(folder).parts) < 3:
        raise _wrong("spec.folder", "write an absolute path below a folder of the machine, as /var/lib/rota-NAME")
    found = ClusterSpec(
        name=name,
        store=store,
        folder=folder,
        manager=_manager(spec.text("manager", Manager.SYSTEMD)),
        ssh=_ssh(spec.fields("ssh", required=False)),
        members=(*masters, *workers),
        bundle=bundle,
        program=program,
        python=spec.text("python", "python3"),
    )
    spec.end()
    return found


def _check_members(masters: Sequence[Member], workers: Sequence[Member], store: str) -> None:
    if not masters:
        raise _wrong("spec.masters", "name at least one master")
    if store == SQLITE and len(masters) > 1:
        raise _wrong("spec.store", "several masters need a shared store: postgresql://... or etcd://...")
    taken: dict[str, str] = {}
    for one in (*masters, *workers):
        if one.name in taken:
            raise _wrong(one.name, "give every member a name of its own")
        place = f"{one.address} port {one.port}"
        if place in taken.values():
            raise _wrong(one.name, f"another member has {place}; choose another port")
        taken[one.name] = place


def _manager(text: str) -> Manager:
    try:
        return Manager(text)
    except ValueError:
        raise _wrong("spec.manager", f"write one of {', '.join(Manager)}") from None


def _ssh(fields: "_Fields") -> Ssh:
    found = Ssh(
        user=fields.text("user", ""),
        port=fields.port("port", 0),
        identity_file=fields.text("identityFile", ""),
        known_hosts_file=fields.text("knownHostsFile", ""),
        sudo=fields.flag("sudo"),
    )
    fields.end()
    return found


def _master(fields: "_Fields") -> Member:
    name, address = _name(fields, "name"), _address(fields)
    found = Member(
        name=name,
        role=Role.MASTER,
        address=address,
        serves_on=fields.text("serves", "127.0.0.1" if address == LOCAL else address),
        port=fields.port("port", _MASTER_PORT),
        options=tuple(fields.texts("options")),
    )
    fields.end()
    return found


def _worker(fields: "_Fields") -> Member:
    name, address = _name(fields, "name"), _address(fields)
    options = [
        *_pairs("--labels", fields.pairs("labels")),
        *(f"--taints={one}" for one in fields.texts("taints")),
        *_pairs("--resources", fields.pairs("resources")),
    ]
    found = Member(
        name=name,
        role=Role.WORKER,
        address=address,
        serves_on="" if address == LOCAL else address,
        port=fields.port("port", _WORKER_PORT),
        options=(*options, *fields.texts("options")),
    )
    fields.end()
    return found


def _pairs(option: str, pairs: Mapping[str, str]) -> list[str]:
    return [f"{option}={name}={value}" for name, value in sorted(pairs.items())]


def _address(fields: "_Fields") -> str:
    address = fields.text("address")
    if address.startswith("-") or any(letter.isspace() for letter in address):
        raise _wrong(fields.path("address"), "write a host name or an address")
    return address


def _name(fields: "_Fields", key: str) -> str:
    name = fields.text(key)
    if names.check_dns1123_subdomain(name) or len(name) > _LONGEST_NAME:
        raise _wrong(fields.path(key), f"{name!r} is no name: small letters, digits, '-' and '.', at most 63 of them")
    return name


def _wrong(field: str, remedy: str) -> errors.UserError:
    return errors.UserError(f"the cluster file is wrong at {field}", remedy)


class _Fields:
    """A mapping of the file; `end` refuses fields that were not read."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(path or "the top", "write a mapping of fields")
        self._value: Final[dict[str, Any]] = value
        self._path: Final = path
        self._asked: Final[set[str]] = set()

    def path(self, key: str) -> str:
        """The path of a field."""
        return f"{self._path}.{key}" if self._path else key

    def text(self, key: str, default: str | None = None) -> str:
        """A string; required without a default."""
        value = self._take(key, default)
        if not isinstance(value, str) or (default is None and not value):
            raise _wrong(self.path(key), "write a text")
        return value

    def flag(self, key: str) -> bool:
        """A Boolean, false by default."""
        value = self._take(key, default=False)
        if not isinstance(value, bool):
            raise _wrong(self.path(key), "write true or false")
        return value

    def port(self, key: str, default: int) -> int:
        """A port."""
        value = self._take(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not (0 < value <= _LAST_PORT or value == default):
            raise _wrong(self.path(key), f"write a port from 1 to {_LAST_PORT}")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of strings, empty by default."""
        value = self._take(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise _wrong(self.path(key), "write a list of texts")
        return value

    def pairs(self, key: str) -> dict[str, str]:
        """A mapping of names to strings or numbers, empty by default."""
        value = self._take(key, {})
        if not isinstance(value, dict) or not all(isinstance(one, str | int) for one in value.values()):
            raise _wrong(self.path(key), "write a mapping of names to texts or whole numbers")
        return {str(name): str(one) for name, one in value.items()}

    def fields(self, key: str, *, required: bool = True) -> "_Fields":
        """A mapping."""
        return _Fields(self._take(key, None if required else {}), self.path(key))

    def items(self, key: str, *, required: bool = True) -> list["_Fields"]:
        """A list of mappings."""
        value = self._take(key, None if required else [])
        if not isinstance(value, list):
            raise _wrong(self.path(key), "write a list")
        return [_Fields(one, f"{self.path(key)}[{number}]") for number, one in enumerate(value)]

    def end(self) -> None:
        """Refuse the fields that were not read."""
        unknown = sorted(map(str, self._value.keys() - self._asked))
        if unknown:
            raise _wrong(
                self.path(unknown[0]), f"there is no such field; these exist: {', '.join(sorted(self._asked))}"
            )

    def _take(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        value = self._value.get(key)
        return default if value is None else value
