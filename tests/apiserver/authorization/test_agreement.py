"""SubjectAccessReview agrees with what happens: every verb on every kind, reviewed and then tried."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from rota.api import scheme
from rota.api.kinds import ResourceType
from rota.api.users import ANONYMOUS, User
from rota.apiserver import routing
from rota.apiserver.authorization import request_attributes
from rota.testing import access
from rota.testing.api import PATCHES, ApiServer

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_OF_COLLECTIONS = frozenset({"list", "watch", "create", "deletecollection"})
_USERS = {
    "anonymous": ANONYMOUS,
    "nobody": User(name="nobody", groups=("system:authenticated",)),
    **{role: User(name=role, groups=("system:authenticated",)) for role in ("view", "edit", "admin", "cluster-admin")},
    **{
        name: User(name=name, groups=("system:authenticated",))
        for name in (
            "system:kube-scheduler",
            "system:kube-controller-manager",
            "rota:scheduler",
            "rota:controller:garbage",
        )
    },
    "node": User(name="system:node:n", groups=("system:nodes", "system:authenticated")),
}


class _Try(NamedTuple):
    verb: str
    resource: ResourceType
    part: str
    namespace: str

    @property
    def path(self) -> str:
        one = self.resource
        root = f"/apis/{one.group}/{one.version}" if one.group else f"/api/{one.version}"
        place = f"/namespaces/{self.namespace}" if self.namespace else ""
        path = f"{root}{place}/{one.plural}"
        if self.part:
            return f"{path}/none/{self.part}"
        return path if self.verb in _OF_COLLECTIONS else f"{path}/none"

    def attributes(self) -> dict[str, str]:
        named = bool(self.part) or self.verb not in _OF_COLLECTIONS
        of_namespaces = named and self.resource.plural == "namespaces"
        return {
            "verb": self.verb,
            "group": self.resource.group,
            "resource": self.resource.plural,
            "subresource": self.part,
            "namespace": "none" if of_namespaces else self.namespace,
            "name": "none" if named else "",
        }


def _tries() -> Iterator[_Try]:
    for resource in scheme.builtin():
        namespace = "here" if resource.namespaced else ""
        for verb in resource.verbs:
            yield _Try(verb, resource, "", namespace)
            if resource.namespaced and verb in {"list", "watch"}:
                yield _Try(verb, resource, "", "")
        for part in resource.subresources.values():
            for verb in part.verbs:
                yield _Try(verb, resource, part.name, namespace)


async def _refused(api: ApiServer, attempt: _Try) -> bool:
    """Whether a request is refused as forbidden; it changes nothing in any case."""
    query: dict[str, object] = {"resourceVersion": "none"} if attempt.verb in {"list", "watch"} else {"dryRun": "All"}
    if attempt.verb == "watch":
        query["watch"] = True
    headers = {"content-type": PATCHES["merge"]} if attempt.verb == "patch" else {}
    body = b"{}" if attempt.verb in {"create", "update", "patch"} else None
    method = _METHODS[attempt.verb]
    answer = await api.request(method, attempt.path, body=body, headers=headers, query=query)
    if answer.code != 403:
        return False
    return f'User "{api.user.name if api.user else ""}" cannot {attempt.verb} ' in answer.json["message"]


def test_what_is_going_to_be_done_is_what_the_path_says_it_is() -> None:
    known = scheme.builtin()
    for attempt in _tries():
        queries = [{"watch": "true"} if attempt.verb == "watch" else {}]
        if attempt.verb in {"list", "watch", "deletecollection"}:
            queries.append({**queries[0], "fieldSelector": "metadata.name=a,spec.nodeName=n"})
        for query in queries:
            method = _METHODS[attempt.verb]
            route = routing.match(known, method, attempt.path, watch="watch" in query)
            assert route is not None, attempt.path
            done = request_attributes.about_route(route, ANONYMOUS, query)
            assert done == request_attributes.about_path(method, attempt.path, ANONYMOUS, query)
            assert done.verb == attempt.verb


@pytest.mark.slow
@pytest.mark.parametrize("who", _USERS)
async def test_a_review_says_what_happens(api: ApiServer, who: str) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "here"}})
    for role in ("view", "edit", "admin"):
        await access.bind(api, role, role, namespace="here")
    await access.bind(api, "cluster-admin", "cluster-admin")
    as_user, user = api.acting_as(who), _USERS[who]
    as_user.user = user
    wrong, refused = [], 0
    for attempt in _tries():
        spec = {"user": user.name, "groups": list(user.groups), "resourceAttributes": attempt.attributes()}
        review = await api.post(_REVIEWS, {"spec": spec})
        no = await _refused(as_user, attempt)
        refused += no
        if review.json["status"]["allowed"] is no:
            wrong.append((attempt.verb, attempt.path, review.json["status"]))
    assert not wrong
    assert bool(refused) is (who != "cluster-admin")


@pytest.mark.slow
async def test_a_review_of_a_path_says_what_happens(api: ApiServer) -> None:
    paths = (
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/readyz",
        "/version",
        "/metrics",
        "/api",
        "/apis",
        "/apis/apps",
        "/no",
    )
    for (who, user), path in itertools.product(_USERS.items(), paths):
        as_user = api.acting_as(who)
        as_user.user = user
        asked = {"nonResourceAttributes": {"path": path, "verb": "get"}, "user": user.name, "groups": list(user.groups)}
        allowed = (await api.post(_REVIEWS, {"spec": asked})).json["status"]["allowed"]
        assert ((await as_user.get(path)).code != 403) is allowed, (who, path)
