"""Cases made by chance: usual objects, written in every way there is, with and without something wrong.

Everything takes its chance as an argument, so a case can be made again from its seed, and Hypothesis can shrink one.
"""

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from rota.api import scheme
from rota.testing.differential.cases import Request

FOLDERS: Final = (Path(__file__).parents[1] / "wire" / "manifests", Path(__file__).parent / "manifests")
JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

#: What is put in a right value's place: wrong types, limits and just beyond, words that look right elsewhere.
_WRONG: Final[Sequence[Any]] = (
    *(
        None,
        "",
        "x",
        "a b",
        "UPPER",
        "a/b",
        "-1",
        "0",
        "1",
        "100m",
        "1Gi",
        "5%",
        "1e400",
        "x" * 64,
        "x" * 254,
        "..",
        "*",
    ),
    *(0, 1, -1, 2, 65_536, 2**31, 2**63, 1.5, True, False),
    *([], [None], [""], ["a", "a"], [{}], {}, {"": ""}, {"a": None}, {"a": "b"}, {"A b": "c"}, {"name": "x"}),
    *("Always", "Never", "OnFailure", "Exists", "In", "NoExecute", "UDP", "None", "Recreate", "2026-01-01T00:00:00Z"),
)


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """An object and the collection it goes to."""

    collection: str
    obj: dict[str, Any]
    namespaced: bool

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.obj["metadata"]["name"])

    @property
    def path(self) -> str:
        """Where the object is, once it is there."""
        return f"{self.collection}/{self.name}"

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.obj["kind"])


def examples() -> list[Example]:
    """Every object of the manifests but custom kinds; those of the cluster are named after the case's namespace."""
    documents = [
        document
        for folder in FOLDERS
        for path in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    return [_example(one) for one in documents if one["kind"] != "CustomResourceDefinition"]


def _example(obj: dict[str, Any]) -> Example:
    version = obj["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    kind = next(one for one in scheme.builtin() if (one.api_version, one.kind) == (version, obj["kind"]))
    if not kind.namespaced:
        obj["metadata"]["name"] = f"$ns-{obj['metadata']['name']}"
    within = "/namespaces/$ns" if kind.namespaced else ""
    return Example(
        collection=f"{base}{within}/{kind.plural}",
        obj=obj,
        namespaced=kind.namespaced,
    )


def case(rng: random.Random, among: Sequence[Example]) -> list[Request]:
    """A case about one of the examples."""
    example = rng.choice(among)
    return rng.choice(WAYS)(rng, example)


def _creating(rng: random.Random, example: Example) -> list[Request]:
    """Created with something wrong, read, and listed."""
    obj = changed(rng, example.obj)
    return [
        Request(method="POST", path=example.collection, query=_write_options(rng), body=obj),
        Request(path=example.path, accept=rng.choice(["", TABLE, METADATA])),
    ]


def _updating(rng: random.Random, example: Example) -> list[Request]:
    """Created, then replaced by something else."""
    obj = changed(rng, example.obj)
    if isinstance(obj.get("metadata"), dict):
        obj["metadata"].update(rng.choice([{}, {"resourceVersion": "$rv0"}, {"resourceVersion": "1"}]))
    where = f"{example.path}{rng.choice(['', '', '', '/status'])}"
    return [
        _made(example),
        Request(method="PUT", path=where, query=_write_options(rng), body=obj),
        Request(path=example.path),
    ]


def _patching(rng: random.Random, example: Example) -> list[Request]:
    """Created, then changed by a patch of one of three kinds."""
    place = rng.choice(list(_places(example.obj)))
    value = copy.deepcopy(rng.choice([*_WRONG, *_values(example.obj)]))
    kind = rng.choice([MERGE, STRATEGIC, STRATEGIC, JSON_PATCH])
    patch: Any
    if kind == JSON_PATCH:
        pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in place)
        op = rng.choice(["add", "replace", "remove", "test", "move", "copy"])
        patch = [{"op": op, "path": pointer, **_operands(op, pointer, value)}]
    else:
        patch = _nested(example.obj, place, value, whole_lists=kind == MERGE)
    return [
        _made(example),
        Request(
            method="PATCH",
            path=f"{example.path}{rng.choice(['', '', '', '/status'])}",
            query=_write_options(rng),
            content_type=kind,
            body=patch,
        ),
        Request(path=example.path),
    ]


def _applying(rng: random.Random, example: Example) -> list[Request]:
    """Applied by two managers, who may not agree."""
    first = example.obj if rng.random() < 0.7 else changed(rng, example.obj)
    second = rng.choice([changed, _thinned])(rng, example.obj)
    force = rng.choice([{}, {"force": "true"}, {"force": "false"}])
    again = rng.choice([_thinned(rng, example.obj), first])
    return [
        Request(method="PATCH", path=example.path, query={"fieldManager": "one"}, content_type=APPLY, body=first),
        Request(
            method="PATCH", path=example.path, query={"fieldManager": "two", **force}, content_type=APPLY, body=second
        ),
        Request(method="PATCH", path=example.path, query={"fieldManager": "one"}, content_type=APPLY, body=again),
        Request(path=example.path),
    ]


def _listing(rng: random.Random, example: Example) -> list[Request]:
    """Several of a kind, listed by selectors and page by page."""
    made = []
    for number in range(3):
        obj = copy.deepcopy(example.obj)
        obj["metadata"]["name"] = f"{example.name}-{number}"
        obj["metadata"]["labels"] = {"case": "$ns", "number": str(number), **({"odd": "yes"} if number % 2 else {})}
        made.append(Request(method="POST", path=example.collection, body=obj))
    labels = rng.choice(
        [
            "case=$ns",
            "case=$ns,odd",
            "case=$ns,!odd",
            "case in ($ns),number notin (0)",
            "case=$ns,number>0",
            "case==$ns,number!=1",
            "a b",
            "case in $ns",
            "case=$ns,,odd",
            "=x",
            "case=$ns,odd in (yes,no),number",
        ]
    )
    fields = rng.choice(
        [
            "",
            "",
            f"metadata.name={example.name}-1",
            "metadata.name!=x",
            "metadata.namespace=$ns",
            "spec.nodeName=",
            "status.phase=Pending",
            "nope=1",
            "metadata.name",
            "spec.nodeName!=,metadata.name=x",
            "type=Opaque",
        ]
    )
    options = {"labelSelector": labels, **({"fieldSelector": fields} if fields else {})}
    accept = rng.choice(["", "", TABLE, METADATA_LIST])
    limit = rng.choice(["1", "2", "0", "-1", "x"])
    return [
        *made,
        Request(path=example.collection, query=options, accept=accept),
        Request(path=example.collection, query={"labelSelector": "case=$ns", "limit": limit}, accept=accept),
        Request(path=example.collection, query={"labelSelector": "case=$ns", "limit": "5", "continue": "$continue4"}),
        Request(method="DELETE", path=example.collection, query={"labelSelector": "case=$ns,odd"}),
        Request(path=example.collection, query={"labelSelector": "case=$ns"}),
    ]


def _deleting(rng: random.Random, example: Example) -> list[Request]:
    """Deleted, with options, finalizers and preconditions."""
    obj = copy.deepcopy(example.obj)
    if rng.random() < 0.5:
        obj["metadata"]["finalizers"] = rng.choice([["example.com/wait"], ["orphan"], ["foregroundDeletion"]])
    options: Any = rng.choice(
        [
            None,
            {},
            {"propagationPolicy": "Foreground"},
            {"propagationPolicy": "Orphan"},
            {"propagationPolicy": "X"},
            {"gracePeriodSeconds": 0},
            {"gracePeriodSeconds": 5},
            {"gracePeriodSeconds": -1},
            {"dryRun": ["All"]},
            {"preconditions": {"uid": "x"}},
            {"preconditions": {"resourceVersion": "1"}},
            {"orphanDependents": True},
            {"kind": "DeleteOptions", "apiVersion": "v1"},
            {"kind": "Pod", "apiVersion": "v1"},
            {"unknown": 1},
            "{",
            [],
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            {"dryRun": ["Some"]},
            {"gracePeriodSeconds": "1"},
            {"preconditions": {"uid": "$uid0", "resourceVersion": "$rv0"}},
        ]
    )
    # with a body, a stock server ignores what the parameters say, even that nothing should happen
    query = rng.choice([{}, {"gracePeriodSeconds": "0"}, {"propagationPolicy": "Background"}])
    if options is None and rng.random() < 0.3:
        query = {"dryRun": "All"}
    return [
        Request(method="POST", path=example.collection, body=obj),
        Request(method="DELETE", path=example.path, query=query, body=options),
        Request(path=example.path),
        Request(method="DELETE", path=example.path),
        Request(method="PATCH", path=example.path, content_type=MERGE, body={"metadata": {"finalizers": None}}),
        Request(path=example.path),
    ]


def _babbling(rng: random.Random, example: Example) -> list[Request]:
    """Bodies, types, paths and parameters that make no sense."""
    text = json.dumps(example.obj)
    bodies: list[Any] = [
        *("", "{", "null", "[]", "1", '"x"', "{}", text[: len(text) // 2], text + "x", f"[{text}]", "a: b", "\x00"),
        {**example.obj, "kind": "Other"},
        {**example.obj, "kind": "List"},
        {**example.obj, "apiVersion": "other/v1"},
        {**example.obj, "apiVersion": "v9"},
        {**example.obj, "apiVersion": ""},
        {name: part for name, part in example.obj.items() if name not in {"kind", "apiVersion"}},
        {**example.obj, "metadata": {**example.obj["metadata"], "namespace": "other"}},
        {**example.obj, "metadata": {**example.obj["metadata"], "name": "other"}},
        {**example.obj, "metadata": {"generateName": "made-"}},
        {**example.obj, "metadata": {}},
        {**example.obj, "unknown": 1, "metadata": {**example.obj["metadata"], "nope": 2}},
        text.replace("{", '{"apiVersion": "v1",', 1),
    ]
    body = rng.choice(bodies)
    kind = rng.choice([JSON, JSON, JSON, "application/yaml", "text/plain", MERGE, APPLY, "application/json; x", "x"])
    patch = rng.choice([STRATEGIC, MERGE, JSON_PATCH, APPLY, JSON])
    query = {
        **_write_options(rng),
        **rng.choice([{}, {"fieldManager": "x" * 129}, {"pretty": "true"}, {"a": "b"}]),
    }
    return [
        Request(method="POST", path=example.collection, query=query, content_type=kind, body=body),
        Request(method="PUT", path=example.path, query=query, body=body),
        Request(method="PATCH", path=example.path, query=query, content_type=patch, body=body),
        Request(method=rng.choice(["POST", "PUT", "PATCH", "OPTIONS"]), path=_odd_path(rng, example)),
        Request(path=_odd_path(rng, example), accept=rng.choice(["", "text/html", "application/xml", TABLE, "x"])),
    ]


def _watching(rng: random.Random, example: Example) -> list[Request]:
    """A watch over what has just happened, with selectors that objects come into and go out of."""
    labelled = copy.deepcopy(example.obj)
    labelled["metadata"]["labels"] = {**labelled["metadata"].get("labels", {}), "case": "$ns", "in": "yes"}
    options: Any = rng.choice(
        [
            {"resourceVersion": "$rv0"},
            {"resourceVersion": "x"},
            {"resourceVersion": "$rv0", "fieldSelector": "a=b"},
            {"resourceVersion": "$rv0", "labelSelector": "in=yes"},
            {"resourceVersionMatch": "Exact"},
            {"sendInitialEvents": "true"},
            {"resourceVersion": "-1"},
            {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
        ]
    )
    patch = {"metadata": {"labels": {"in": rng.choice([None, "no", "yes"]), "more": "1"}}}
    return [
        Request(method="POST", path=example.collection, body=labelled),
        Request(method="PATCH", path=example.path, content_type=MERGE, body=patch),
        Request(method="DELETE", path=example.path, body={"gracePeriodSeconds": 0}),
        Request(
            path=example.collection,
            query={"labelSelector": "case=$ns", **options, "watch": "true", "timeoutSeconds": "1"},
            accept=rng.choice(["", "", TABLE, METADATA]),
        ),
    ]


WAYS: Final[Sequence[Callable[[random.Random, Example], list[Request]]]] = (
    *(_creating, _creating, _creating, _updating, _updating, _patching, _patching, _applying, _applying),
    *(_listing, _deleting, _babbling),
)
SLOW_WAYS: Final = (_watching,)


def changed(rng: random.Random, obj: dict[str, Any]) -> dict[str, Any]:
    """The object with one or two things gone, wrong, doubled or new."""
    result = copy.deepcopy(obj)
    for _ in range(rng.choice([1, 1, 1, 2])):
        places = list(_places(result))
        if not places:  # the first change took everything but the type
            break
        *way, last = rng.choice(places)
        part: Any = result
        for step in way:
            part = part[step]
        match rng.randrange(5):
            case 0:
                del part[last]
            case 1 if isinstance(part[last], dict):
                part[last][rng.choice(["unknown", "name", "key", "value", "type"])] = rng.choice(_WRONG)
            case 1 if isinstance(part[last], list) and part[last]:
                part[last].append(copy.deepcopy(part[last][0]))
            case 2:
                part[last] = copy.deepcopy(rng.choice(list(_values(result))))
            case _:
                part[last] = copy.deepcopy(rng.choice(_WRONG))
    return result


def _thinned(rng: random.Random, obj: dict[str, Any]) -> dict[str, Any]:
    """The object with some of its parts only, its name among them."""
    result = copy.deepcopy(obj)
    for name in [name for name in result if name not in {"apiVersion", "kind", "metadata"} and rng.random() < 0.3]:
        del result[name]
    spec = result.get("spec")
    if isinstance(spec, dict):
        for name in [name for name in spec if rng.random() < 0.4]:
            del spec[name]
    return result


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of everything in a value but its type."""
    if above:
        yield above
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inside:
        if above or name not in {"apiVersion", "kind"}:
            yield from _places(part, (*above, name))


def _values(value: Any) -> Iterator[Any]:
    """Everything in a value."""
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(part)


def _nested(obj: Any, place: tuple[Any, ...], value: Any, *, whole_lists: bool) -> Any:
    """A patch that reaches one place: maps on the way there, and lists whole or as their one item."""
    if not place:
        return value
    step, rest = place[0], place[1:]
    if isinstance(obj, list):
        if whole_lists:
            return [_nested(part, rest, value, whole_lists=True) if at == step else part for at, part in enumerate(obj)]
        inside = _nested(obj[step], rest, value, whole_lists=False)
        keys = ("name", "key", "type", "containerPort", "port", "mountPath", "topologyKey", "ip")
        if isinstance(inside, dict) and isinstance(obj[step], dict):
            return [{**{key: obj[step][key] for key in keys if key in obj[step]}, **inside}]
        return [inside]
    return {step: _nested(obj[step], rest, value, whole_lists=whole_lists)}


def _operands(op: str, pointer: str, value: Any) -> dict[str, Any]:
    if op in {"move", "copy"}:
        return {"from": pointer, "path": "/metadata/annotations"}
    return {} if op == "remove" else {"value": value}


def _write_options(rng: random.Random) -> dict[str, str]:
    return dict(
        rng.choice(
            [
                {},
                {},
                {},
                {"fieldValidation": "Strict"},
                {"fieldValidation": "Warn"},
                {"fieldValidation": "Ignore"},
                {"dryRun": "All"},
                {"fieldManager": "tester"},
                {"fieldValidation": "x"},
                {"dryRun": "x"},
            ]
        )
    )


def _made(example: Example) -> Request:
    return Request(method="POST", path=example.collection, body=example.obj)


def _odd_path(rng: random.Random, example: Example) -> str:
    return rng.choice(
        [
            example.collection,
            example.path,
            f"{example.path}/status",
            f"{example.path}/nope",
            f"{example.path}/scale",
            f"{example.path}/log",
            f"{example.path}/eviction",
            f"{example.path}/binding",
            f"{example.collection}x",
            example.collection.rpartition("/")[0],
            "/api/v1/nope",
            "/apis/apps/v9/x",
            "/apis/nope/v1",
            "/nope",
            f"{example.path}/status/x",
            f"{example.collection}/",
            "/api/v1/namespaces/$ns/pods/x/y/z",
        ]
    )
