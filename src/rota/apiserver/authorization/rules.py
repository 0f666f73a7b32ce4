"""Rules of roles: what a rule allows, and whether some rules cover others. Pure.

Matching follows upstream (`pkg/apis/rbac/v1/evaluation_helpers.go` and `component-helpers/auth/rbac/validation`, 1.36):
`*` matches everything, `*/scale` a subresource of everything, a path that ends in `*` all paths with that prefix.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from rota.api import gotext
from rota.apiserver.interfaces import Question

ALL: Final = "*"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of a role; the order of its values is the order in which it is printed."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def from_wire(cls, rule: Mapping[str, Any]) -> Self:
        """A rule from a role's `rules`."""
        return cls(
            verbs=tuple(rule.get("verbs") or ()),
            groups=tuple(rule.get("apiGroups") or ()),
            resources=tuple(rule.get("resources") or ()),
            names=tuple(rule.get("resourceNames") or ()),
            paths=tuple(rule.get("nonResourceURLs") or ()),
        )

    def to_wire(self) -> dict[str, Any]:
        """As it is in a role."""
        wire = {
            "apiGroups": self.groups,
            "nonResourceURLs": self.paths,
            "resourceNames": self.names,
            "resources": self.resources,
            "verbs": self.verbs,
        }
        return {name: list(words) for name, words in wire.items() if words}

    def __str__(self) -> str:
        parts = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.paths,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{quoted(words)}" for name, words in parts.items() if words) + "}"


EVERYTHING: Final = (Rule(verbs=(ALL,), groups=(ALL,), resources=(ALL,)), Rule(verbs=(ALL,), paths=(ALL,)))


def quoted(words: Iterable[str]) -> str:
    """Strings as Go's `%q` prints a slice of them."""
    return "[" + " ".join(map(gotext.quote, words)) + "]"


def from_role(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(map(Rule.from_wire, role.get("rules") or ()))


def reaches(rule: Rule, question: Question) -> bool:
    """Whether a rule applies to the request, whatever the object's name."""
    if not _has(rule.verbs, question.verb):
        return False
    if question.path is not None:
        return any(_path_covers(path, question.path) for path in rule.paths)
    return _has(rule.groups, question.group) and _has_resource(rule.resources, question.resource, question.subresource)


def allows(rule: Rule, question: Question) -> bool:
    """Whether a rule allows the request."""
    named = question.path is not None or not rule.names or question.name in rule.names
    return named and reaches(rule, question)


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The part of the wanted rules that the owned ones do not cover, in pieces of one verb each."""
    return [piece for rule in wanted for piece in pieces(rule) if not any(_covers(own, piece) for own in owned)]


def pieces(rule: Rule) -> Iterator[Rule]:
    """Equivalent rules of one verb, one resource and at most one name."""
    names: Iterable[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    for group, resource, verb, name in itertools.product(rule.groups, rule.resources, rule.verbs, names):
        yield Rule(verbs=(verb,), groups=(group,), resources=(resource,), names=name)
    for path, verb in itertools.product(rule.paths, rule.verbs):
        yield Rule(verbs=(verb,), paths=(path,))


def joined(found: Sequence[Rule]) -> list[Rule]:
    """Pieces about the same resource and name merged into one rule with all verbs; paths stay as they are."""
    alone = [rule for rule in found if rule.paths]
    verbs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for rule in found:
        if not rule.paths:
            verbs.setdefault((rule.groups, rule.resources, rule.names), []).extend(rule.verbs)
    return alone + [
        Rule(verbs=tuple(words), groups=groups, resources=resources, names=names)
        for (groups, resources, names), words in verbs.items()
    ]


def _has(words: Sequence[str], word: str) -> bool:
    return word in words or ALL in words


def _has_resource(words: Sequence[str], resource: str, subresource: str) -> bool:
    if not subresource:
        return _has(words, resource)
    return _has(words, f"{resource}/{subresource}") or f"*/{subresource}" in words


def _path_covers(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def _covers(own: Rule, piece: Rule) -> bool:
    if not _has(own.verbs, piece.verbs[0]):
        return False
    if piece.paths:
        return any(_path_covers(path, piece.paths[0]) for path in own.paths)
    if own.names and not (piece.names and piece.names[0] in own.names):
        return False
    resource, _, subresource = piece.resources[0].partition("/")
    return _has(own.groups, piece.groups[0]) and _has_resource(own.resources, resource, subresource)
