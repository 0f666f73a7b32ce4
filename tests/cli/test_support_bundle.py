"""`rota support-bundle`: everything that helps, nothing that is secret."""

import json
import tarfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Rota

from rota.cli.commands.redaction import redacted
from rota.testing import manifests
from rota.testing.live import LiveServer

SECRET = "s3cr3t-never-to-be-seen"


def test_the_form_stays_and_the_content_goes() -> None:
    container = {
        "name": "c",
        "image": "app:1",
        "command": ["sh", "-c", SECRET],
        "env": [{"name": "A", "value": SECRET}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
        "resources": {"requests": {"cpu": "1"}},
    }
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "note": "kept"}
    pod = {
        "metadata": {"name": "p", "annotations": annotations, "managedFields": [1]},
        "spec": {"containers": [container]},
    }
    assert redacted(pod) == {
        "metadata": {
            "name": "p",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "<removed>", "note": "kept"},
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "app:1",
                    "command": ["<removed>"],
                    "env": [
                        {"name": "A", "value": "<removed>"},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
                    ],
                    "resources": {"requests": {"cpu": "1"}},
                }
            ]
        },
    }


LEAF = st.one_of(st.just(SECRET), st.integers(), st.none())
NESTED = st.recursive(LEAF, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(
    st.sampled_from(["command", "args", "data", "stringData", "binaryData", "password", "apiKey", "db_token"]), NESTED
)
def test_nothing_below_a_field_of_free_text_stays(field: str, content: Any) -> None:
    assert SECRET not in json.dumps(redacted({"spec": {"deep": [{field: content}]}}))


def test_a_bundle_of_a_live_cluster_holds_no_secret(
    rota: Rota, server: LiveServer, namespace: str, tmp_path: Path
) -> None:
    base = f"/api/v1/namespaces/{namespace}"
    pod = manifests.pod("worker")
    pod["spec"]["containers"][0] |= {"args": [SECRET], "env": [{"name": "KEY", "value": SECRET}]}
    secret = {"metadata": {"name": "s"}, "stringData": {"k": SECRET}}
    settings = {"metadata": {"name": "c"}, "data": {"k": SECRET}}
    for kind, body in (("pods", pod), ("secrets", secret), ("configmaps", settings)):
        code, answer = server.request("POST", f"{base}/{kind}", body)
        assert code == 201, answer
    file = tmp_path / "bundle.tar.gz"
    said = rota("support-bundle", str(file), "--json")
    assert said.code == 0, said.err
    assert file.stat().st_mode & 0o077 == 0
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    files = [path for path in tmp_path.glob("rota-support/**/*") if path.is_file()]
    content = {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}
    assert not [name for name, body in content.items() if SECRET.encode() in body]
    assert {"rota-support/doctor.json", "rota-support/version.json", "rota-support/metrics.txt"} <= content.keys()
    pods = json.loads(content["rota-support/objects/pods.json"])
    assert "worker" in [one["metadata"]["name"] for one in pods]
    assert not [name for name in content if "secrets" in name or "configmaps" in name]
