from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import jsonpaths

OBJECT: dict[str, Any] = {
    "spec": {"size": 3, "names": ["a", "b", "c"], "a.b": "dotted", "none": None},
    "status": {"conditions": [{"type": "Synced", "n": 1}, {"type": "Ready", "n": 5, "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        (".spec.none", [None]),
        (".spec.missing.deeper", []),
        (".spec.a\\.b", ["dotted"]),
        (".spec['a\\.b']", ["dotted"]),
        (".spec.names[0]", ["a"]),
        (".spec.names[-1]", ["c"]),
        (".spec.names[1:]", ["b", "c"]),
        (".spec.names[0:3:2]", ["a", "c"]),
        (".spec.names[0,2]", ["a", "c"]),
        (".spec.names[*]", ["a", "b", "c"]),
        (".spec.names.*", ["a", "b", "c"]),
        ("..n", [1, 5]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Nowhere')].status", []),
        (".status.conditions[?(@.n>1)].type", ["Ready"]),
        (".status.conditions[?(@.status)].type", ["Ready"]),
        (".status.conditions[?(@.n!=5)].type", ["Synced"]),
        ('.status.conditions[?(@.type=="Re)ady")].status', []),
    ],
)
def test_a_path_finds_what_client_go_finds(path: str, found: list[Any]) -> None:
    assert jsonpaths.find(path, OBJECT) == found


@pytest.mark.parametrize(
    "path",
    [
        ".spec.names[7]",
        ".spec.names[",
        ".spec.names[x]",
        ".spec.names[]",
        ".spec.size[0]",
        ".spec[?(@.x)",
        ".status.conditions[?(@.n==true)]",
        ".status.conditions[?(@.n=1)]",
        '.status.conditions[?(@.n=="1")]',
        ".spec.names[0:3:0]",
        ".spec.names[0:-]",
        ".spec.names[" + "9" * 5000 + "]",
        ".spec.{",
    ],
)
def test_what_does_not_fit_is_a_path_error(path: str) -> None:
    with pytest.raises(jsonpaths.PathError):
        jsonpaths.find(path, OBJECT)


@given(st.text(alphabet=".[]()?@$*:,'\"\\=<>!-0127abn {}", max_size=25))
def test_no_path_breaks_anything(path: str) -> None:
    try:
        found = jsonpaths.find("." + path, OBJECT)
    except jsonpaths.PathError:
        return
    assert isinstance(found, list)
