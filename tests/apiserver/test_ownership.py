"""Who owns what in new objects is recorded the same, whether it was worked out before or not."""

import copy
from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from rota.api import scheme, users
from rota.api.identifiers import GroupResource
from rota.api.patches import apply
from rota.apiserver.contract import Attributes
from rota.apiserver.registry import ownership

SCHEME = scheme.builtin()


def _resource(name: str) -> Any:
    found = SCHEME.preferred(GroupResource("", name))
    assert found is not None
    return found


PODS = _resource("pods")
KNOWN = ownership.versions_of(PODS, SCHEME, lambda _: None)  # type: ignore[arg-type, return-value]  # for custom kinds

Documents: TypeAlias = st.SearchStrategy[dict[str, Any]]
_word = st.sampled_from(["a", "b", ""])
_amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2"]), max_size=2)
_port: Documents = st.fixed_dictionaries(
    {"containerPort": st.sampled_from([80, 81])}, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": _word}
)
_container: Documents = st.fixed_dictionaries(
    {"name": st.sampled_from(["c", "d"])},
    optional={
        "image": _word,
        "command": st.lists(_word, max_size=2),
        "ports": st.lists(_port, max_size=2, unique_by=lambda one: (one["containerPort"], one.get("protocol"))),
        "env": st.lists(st.fixed_dictionaries({"name": _word}, optional={"value": _word}), max_size=1),
        "resources": st.fixed_dictionaries({}, optional={"requests": _amounts, "limits": _amounts}),
    },
)
_toleration: Documents = st.fixed_dictionaries(
    {}, optional={"key": _word, "operator": _word, "tolerationSeconds": st.integers()}
)
_spec: Documents = st.fixed_dictionaries(
    {"containers": st.lists(_container, max_size=2, unique_by=lambda one: one["name"])},
    optional={
        "nodeSelector": st.dictionaries(_word, _word, max_size=2),
        "tolerations": st.lists(_toleration, max_size=2),
        "affinity": st.fixed_dictionaries({}, optional={"nodeAffinity": st.just({})}),
        "imagePullSecrets": st.lists(st.fixed_dictionaries({"name": _word}), max_size=1),
    },
)
_pods: Documents = st.builds(
    lambda spec, labels: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **({"labels": labels} if labels else {})},
        "spec": spec,
    },
    _spec,
    st.dictionaries(_word, _word, max_size=2),
)


@given(st.lists(_pods, max_size=6))
def test_records_do_not_depend_on_what_was_recorded_before(pods: list[dict[str, Any]]) -> None:
    at = Attributes(user=users.ADMINISTRATOR, verb="create", resource=PODS, now=0.0, field_manager="tests")
    for pod in pods:
        alone = apply.update(
            None,
            copy.deepcopy(pod),
            manager="tests",
            versions=KNOWN,
            now="1970-01-01T00:00:00Z",
            subresource="",
            reset=ownership.untouchable(at),
        )
        assert ownership.record(None, copy.deepcopy(pod), at, KNOWN) == alone
