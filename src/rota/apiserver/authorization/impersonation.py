"""Impersonation: `Impersonate-*` headers, each of which needs the permission to impersonate what it names.

Rules and messages are upstream's (`apiserver/pkg/endpoints/filters/impersonation`, 1.36). An impersonating user has
none of its own permissions for the request.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from rota.api import errors, gotext, users
from rota.apiserver.authorization import request_attributes
from rota.apiserver.interfaces import Authorizer, Question, User

_PREFIX: Final = b"impersonate-"
_USER: Final = b"impersonate-user"
_GROUP: Final = b"impersonate-group"
_UID: Final = b"impersonate-uid"
_EXTRA: Final = b"impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"
_ACCOUNTS: Final = "system:serviceaccounts"


class _ImpersonatedAttribute(NamedTuple):
    """One impersonated attribute; the key is that of an extra."""

    kind: str
    name: str
    namespace: str = ""
    key: str = ""

    def question(self, asker: User) -> Question:
        resource, group = _RESOURCES[self.kind]
        return Question(
            user=asker,
            verb="impersonate",
            group=group,
            resource=resource,
            subresource=self.key,
            namespace=self.namespace,
            name=self.name,
        )


_RESOURCES: Final = {
    "ServiceAccount": ("serviceaccounts", ""),
    "User": ("users", ""),
    "Group": ("groups", ""),
    "UserExtra": ("userextras", _AUTHENTICATION),
    "UID": ("uids", _AUTHENTICATION),
}


async def acting_user(
    asker: User, present: Mapping[bytes, bytes], headers: Iterable[tuple[bytes, bytes]], authorizer: Authorizer
) -> User:
    """The user that a request acts as: its own, unless headers name another; `present` are the headers once each."""
    # the fastest check for none: every request passes here
    for name in present:
        if name.startswith(_PREFIX):
            break
    else:
        return asker
    attributes = list(_impersonated_attributes([(name.lower(), value.decode("latin-1")) for name, value in headers]))
    if not attributes:
        return asker
    if not any(attribute.kind in {"User", "ServiceAccount"} for attribute in attributes):
        raise errors.bad_request(f"requested {_as_go(attributes)} without impersonating a user name")
    for attribute in attributes:
        question = attribute.question(asker)
        verdict = await authorizer.authorize(question)
        if not verdict.allowed:
            raise request_attributes.refusal(question, verdict)
    return _user(attributes)


def _impersonated_attributes(headers: list[tuple[bytes, str]]) -> Iterator[_ImpersonatedAttribute]:
    for user in [value for name, value in headers if name == _USER and value][:1]:
        namespace, _, account = user.removeprefix(_ACCOUNT).partition(":")
        if user.startswith(_ACCOUNT) and namespace and account and ":" not in account:
            yield _ImpersonatedAttribute("ServiceAccount", account, namespace)
        else:
            yield _ImpersonatedAttribute("User", user)
    for name, value in headers:
        if name == _GROUP:
            yield _ImpersonatedAttribute("Group", value)
    for name, value in headers:
        if name.startswith(_EXTRA):
            yield _ImpersonatedAttribute("UserExtra", value, key=unquote(name[len(_EXTRA) :].decode("latin-1")))
    for uid in [value for name, value in headers if name == _UID and value][:1]:
        yield _ImpersonatedAttribute("UID", uid)


def _user(attributes: list[_ImpersonatedAttribute]) -> User:
    name, uid, groups, extra = "", "", list[str](), dict[str, tuple[str, ...]]()
    for attribute in attributes:
        match attribute.kind:
            case "ServiceAccount":
                name = f"{_ACCOUNT}{attribute.namespace}:{attribute.name}"
            case "User":
                name = attribute.name
            case "Group":
                groups.append(attribute.name)
            case "UserExtra":
                extra[attribute.key] = (*extra.get(attribute.key, ()), attribute.name)
            case "UID":
                uid = attribute.name
    account = attributes[0]
    if account.kind == "ServiceAccount" and not groups:
        groups = [_ACCOUNTS, f"{_ACCOUNTS}:{account.namespace}"]
    if name == users.ANONYMOUS.name:
        if users.UNAUTHENTICATED not in groups:
            groups.append(users.UNAUTHENTICATED)
    elif not {users.AUTHENTICATED, users.UNAUTHENTICATED} & set(groups):
        groups.append(users.AUTHENTICATED)
    return User(name=name, uid=uid, groups=tuple(groups), extra=extra)


def _as_go(attributes: list[_ImpersonatedAttribute]) -> str:
    """The attributes that were requested without a user, as Go's `%#v` prints them."""
    extra: dict[str, list[str]] = {}
    for attribute in attributes:
        if attribute.kind == "UserExtra":
            extra.setdefault(attribute.key, []).append(attribute.name)
    groups = [attribute.name for attribute in attributes if attribute.kind == "Group"]
    uid = next((attribute.name for attribute in attributes if attribute.kind == "UID"), "")
    entries = ", ".join(f"{gotext.quote(key)}:{_slice(values)}" for key, values in sorted(extra.items()))
    return (
        f'&user.DefaultInfo{{Name:"", UID:{gotext.quote(uid)}, Groups:{_slice(groups)}, '
        f"Extra:map[string][]string{f'{{{entries}}}' if entries else '(nil)'}}}"
    )


def _slice(words: list[str]) -> str:
    return f"[]string{{{gotext.quote_all(words)}}}" if words else "[]string(nil)"
