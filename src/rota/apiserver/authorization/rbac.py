"""Roles and bindings in memory, and what they allow. No I/O: the owner passes every change.

Bindings are indexed by subject, so bindings of other users cost a decision nothing. What a user may do with a resource
is computed once and cached until a role or binding changes: the decision for one name is then a dictionary lookup.
Cluster-wide bindings come before those of the namespace, each in order of names; the first that allows gives the
reason. Messages and rules are upstream's (`plugin/pkg/auth/authorizer/rbac`, 1.36).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from rota.api import gotext
from rota.apiserver.authorization import rules
from rota.apiserver.authorization.rules import Rule
from rota.apiserver.interfaces import NO_OPINION, Decision, Question, User, Verdict

GROUP: Final = "rbac.authorization.k8s.io"
#: Size of the cache; a busy cluster's users need far less.
_MOST_ANSWERS: Final = 65_536

#: The kind and name of a subject, as users are looked up.
_Subject: TypeAlias = tuple[str, str]
_Place: TypeAlias = tuple[str, str]


class RoleRef(NamedTuple):
    """The role that a binding refers to."""

    kind: str
    name: str


class _Binding(NamedTuple):
    namespace: str
    name: str
    role: RoleRef
    #: The subjects, and their description in reasons, in the binding's order.
    subjects: tuple[tuple[_Subject, str], ...]


class _Held(NamedTuple):
    """A binding of a user: the reason, and the rules; None if the role is missing."""

    source: str
    role: RoleRef
    rules: tuple[Rule, ...] | None


class _Answer(NamedTuple):
    """The decisions about one request by the object's name: the first whose names are None or contain the name."""

    grants: tuple[tuple[frozenset[str] | None, Verdict], ...]
    otherwise: Verdict


class Policy:
    """All roles and bindings. ClusterRoles and ClusterRoleBindings have no namespace."""

    def __init__(self) -> None:
        self._roles: Final[dict[_Place, tuple[Rule, ...]]] = {}
        self._bindings: Final[dict[_Place, _Binding]] = {}
        #: By subject and namespace; cluster-wide bindings under the empty one.
        self._by_subject: Final[dict[tuple[_Subject, str], dict[str, _Binding]]] = {}
        self._held: Final[dict[tuple[str, tuple[str, ...], str], tuple[_Held, ...]]] = {}
        self._answers: Final[dict[tuple[object, ...], _Answer]] = {}

    def put_role(self, namespace: str, name: str, role: Mapping[str, Any] | None) -> None:
        """Set or remove a role."""
        if role is None:
            self._roles.pop((namespace, name), None)
        else:
            self._roles[namespace, name] = rules.from_role(role)
        self._forget()

    def put_binding(self, namespace: str, name: str, binding: Mapping[str, Any] | None) -> None:
        """Set or remove a binding."""
        before = self._bindings.pop((namespace, name), None)
        for subject in {subject for subject, _ in before.subjects} if before is not None else ():
            there = self._by_subject[subject, namespace]
            there.pop(name, None)
            if not there:
                del self._by_subject[subject, namespace]
        if binding is not None:
            new = self._bindings[namespace, name] = _binding(namespace, name, binding)
            for subject, _ in new.subjects:
                self._by_subject.setdefault((subject, namespace), {})[name] = new
        self._forget()

    def decide(self, question: Question) -> Verdict:
        """Whether roles allow the request; otherwise no opinion."""
        user = question.user
        key = (
            user.name, user.groups, question.verb, question.group, question.resource, question.subresource,
            question.namespace, question.path,
        )  # fmt: skip
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._forget()
            answer = self._answers[key] = self._work_out(question)
        for names, verdict in answer.grants:
            if names is None or question.name in names:
                return verdict
        return answer.otherwise

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """All rules that apply to a user in a namespace, and the errors about the rest."""
        held = self._holdings(user, namespace)
        found = [rule for one in held for rule in one.rules or ()]
        return found, [missing(one.role) for one in held if one.rules is None]

    def rules_of(self, role: RoleRef, namespace: str) -> tuple[Rule, ...] | None:
        """The rules of a role that is bound in a namespace; None if there is no such role."""
        if role.kind == "ClusterRole":
            return self._roles.get(("", role.name))
        return self._roles.get((namespace, role.name)) if role.kind == "Role" and namespace else None

    def _work_out(self, question: Question) -> _Answer:
        grants: list[tuple[frozenset[str] | None, Verdict]] = []
        held = self._holdings(question.user, question.namespace)
        for one in held:
            for rule in one.rules or ():
                if rules.reaches(rule, question):
                    everything = question.path is not None or not rule.names
                    verdict = Verdict(Decision.ALLOWED, f"RBAC: allowed by {one.source}")
                    grants.append((None if everything else frozenset(rule.names), verdict))
                    if everything:
                        return _Answer(tuple(grants), NO_OPINION)
        problems = [missing(one.role) for one in held if one.rules is None]
        otherwise = Verdict(Decision.NO_OPINION, f"RBAC: {_aggregate(problems)}") if problems else NO_OPINION
        return _Answer(tuple(grants), otherwise)

    def _holdings(self, user: User, namespace: str) -> tuple[_Held, ...]:
        key = (user.name, user.groups, namespace)
        held = self._held.get(key)
        if held is None:
            if len(self._held) >= _MOST_ANSWERS:
                self._forget()
            held = self._held[key] = tuple(self._look_up(user, namespace))
        return held

    def _look_up(self, user: User, namespace: str) -> Iterator[_Held]:
        who = {("User", user.name), *(("Group", group) for group in user.groups)}
        for place in ("", namespace) if namespace else ("",):
            bound = {name: one for subject in who for name, one in self._by_subject.get((subject, place), {}).items()}
            for _, binding in sorted(bound.items()):
                description = next(description for subject, description in binding.subjects if subject in who)
                yield _Held(_source(binding, description), binding.role, self.rules_of(binding.role, place))

    def _forget(self) -> None:
        self._held.clear()
        self._answers.clear()


def role_ref(binding: Mapping[str, Any]) -> RoleRef:
    """The roleRef of a binding."""
    reference = binding.get("roleRef") or {}
    return RoleRef(reference.get("kind", ""), reference.get("name", ""))


def missing(role: RoleRef) -> str:
    """The message about a binding whose role does not exist."""
    if role.kind not in {"Role", "ClusterRole"}:
        return f"unsupported role reference kind: {gotext.quote(role.kind)}"
    return f"{role.kind.lower()}.{GROUP} {gotext.quote(role.name)} not found"


def _binding(namespace: str, name: str, binding: Mapping[str, Any]) -> _Binding:
    found = [_subject(one, namespace) for one in binding.get("subjects") or ()]
    return _Binding(namespace, name, role_ref(binding), tuple(one for one in found if one is not None))


def _subject(subject: Mapping[str, Any], namespace: str) -> tuple[_Subject, str] | None:
    """The user or group of a subject, and its description; None if it is invalid."""
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind in {"User", "Group"}:
        return (kind, name), f"{kind} {gotext.quote(name)}"
    home = subject.get("namespace") or namespace
    if kind != "ServiceAccount" or not home:
        return None
    return ("User", f"system:serviceaccount:{home}:{name}"), f"{kind} {gotext.quote(f'{name}/{home}')}"


def _source(binding: _Binding, description: str) -> str:
    kind = "RoleBinding" if binding.namespace else "ClusterRoleBinding"
    which = f"{binding.name}/{binding.namespace}" if binding.namespace else binding.name
    return f"{kind} {gotext.quote(which)} of {binding.role.kind} {gotext.quote(binding.role.name)} to {description}"


def _aggregate(problems: list[str]) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
