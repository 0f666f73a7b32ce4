"""Parses names of kinds and objects as kubectl does: `po`, `pods`, `Pod`, `deployments.apps`, `pod/web`, `all`.

The kinds come from discovery, so that custom ones are included.
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rota.api.kinds import ResourceType
from rota.client import discovery
from rota.client.verbs import Client
from rota.kit import errors


class Wanted(NamedTuple):
    """A kind, and the names of its objects; no name means all."""

    kind: ResourceType
    names: tuple[str, ...]


class Kinds:
    """The kinds of a server by all their names."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        """Of kinds with the same name the first one wins; the server lists the core group first."""
        self._all: Final = tuple(types)
        self._named: Final[dict[str, ResourceType]] = {}
        self._categories: Final[dict[str, list[ResourceType]]] = {}
        for one in self._all:
            for name in (one.plural, one.singular, one.kind.lower(), *one.short_names):
                for form in (name, f"{name}.{one.group}", f"{name}.{one.version}.{one.group}"):
                    self._named.setdefault(form, one)
        for one in dict.fromkeys(self._named.values()):
            if "list" in one.verbs:
                for category in one.categories:
                    self._categories.setdefault(category, []).append(one)

    def one(self, word: str) -> ResourceType:
        """The kind with a name; `UserError` if there is none."""
        found = self._named.get(word.lower())
        if found is None:
            near = difflib.get_close_matches(word.lower(), [name for name in self._named if "." not in name], n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "see 'rota get crd' for the custom ones"
            raise errors.UserError(f"the server has no kind {word!r}", remedy)
        return found

    def several(self, word: str) -> list[ResourceType]:
        """The kinds in a list of names and categories: `pods,nodes` or `all`."""
        found: dict[ResourceType, None] = {}
        for part in filter(None, word.split(",")):
            found.update(dict.fromkeys(self._categories.get(part.lower()) or [self.one(part)]))
        return list(found)

    def of_object(self, api_version: str, kind: str) -> ResourceType | None:
        """The kind of a manifest."""
        return next((one for one in self._all if one.api_version == api_version and one.kind == kind), None)

    def listed(self) -> list[ResourceType]:
        """Each kind once, in its preferred version."""
        return list(dict.fromkeys(self._named.values()))


async def kinds(client: Client) -> Kinds:
    """Discover the kinds of the server."""
    return Kinds((await discovery.discover(client)).types)


def wanted(known: Kinds, words: Sequence[str]) -> list[Wanted]:
    """The objects that the arguments name: `KIND`, `KIND NAME...`, `KIND,KIND`, or any number of `KIND/NAME`."""
    if any("/" in word for word in words):
        found: dict[ResourceType, list[str]] = {}
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not name:
                raise errors.UserError(f"{word!r} names no object", "write KIND NAME, or KIND/NAME for each")
            found.setdefault(known.one(kind), []).append(name)
        return [Wanted(kind, tuple(names)) for kind, names in found.items()]
    first, *names = words
    several = known.several(first)
    if not several:
        raise errors.UserError(f"{first!r} names no kind", "write for example pods")
    return [Wanted(kind, tuple(names)) for kind in several]


def shown(kind: ResourceType, name: str) -> str:
    """An object's name in output: `pod/web`, `deployment.apps/web`."""
    return f"{kind.singular}.{kind.group}/{name}" if kind.group else f"{kind.singular}/{name}"
