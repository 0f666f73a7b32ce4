"""`rota submit` and `rota delete`: files in, objects there, objects gone; and what bad files get."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Rota

from rota.testing import manifests
from rota.testing.live import LiveServer


def written(path: Path, *documents: Any) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


@pytest.mark.slow
def test_objects_are_made_then_changed_then_left_alone(rota: Rota, namespace: str, tmp_path: Path) -> None:
    first = written(tmp_path / "a.yaml", manifests.config_map("settings", level="1"), manifests.pod("web"))
    said = rota("submit", first, "-n", namespace)
    assert (said.code, said.lines) == (0, ["configmap/settings created", "pod/web created"])
    assert said.err == f"follow it: rota logs -f web -n {namespace}\n"
    written(tmp_path / "a.yaml", manifests.config_map("settings", level="2"), manifests.pod("web"))
    said = rota("submit", first, "-n", namespace)
    assert (said.lines, said.err) == (["configmap/settings changed", "pod/web unchanged"], "")


def test_a_folder_is_read_by_name_and_json_is_yaml_too(rota: Rota, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub" / "b.yml", manifests.config_map("b"))
    (tmp_path / "a.json").write_text(json.dumps(manifests.config_map("a")))
    (tmp_path / "notes.txt").write_text("no manifest")
    assert rota("submit", str(tmp_path), "-n", namespace).lines == ["configmap/a created", "configmap/b created"]


def test_standard_input_and_lists_are_taken(
    rota: Rota, namespace: str, monkeypatch: pytest.MonkeyPatch, server: LiveServer
) -> None:
    items = [manifests.config_map("x"), manifests.config_map("y")]
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})))
    assert rota("submit", "-", "-n", namespace, "-o", "name").out == "configmap/x\nconfigmap/y\n"
    assert server.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/y")[0] == 200


def test_a_generated_name_makes_a_new_object_each_time(rota: Rota, namespace: str, tmp_path: Path) -> None:
    document = manifests.config_map("")
    document["metadata"] = {"generateName": "run-"}
    file = written(tmp_path / "a.yaml", document)
    names = {rota("submit", file, "-n", namespace, "-o", "name").out for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("configmap/run-") for name in names)


def test_each_failure_is_one_line_with_its_place_and_the_rest_is_done(
    rota: Rota, namespace: str, tmp_path: Path
) -> None:
    misspelt = manifests.pod("web", containres=[])
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
    strange = {"apiVersion": "no.such/v1", "kind": "Thing", "metadata": {"name": "t"}}
    file = written(tmp_path / "a.yaml", misspelt, nameless, strange, "text", manifests.config_map("good"))
    said = rota("submit", file, "-n", namespace)
    assert (said.code, said.lines) == (2, ["configmap/good created"])
    *faults, total = said.err.splitlines()
    assert [fault.removeprefix(f"rota: {file}, ").partition(":")[0] for fault in faults] == [
        "document 1 (Pod web)",
        "document 2 (ConfigMap)",
        "document 3 (Thing t)",
        "document 4",
    ]
    assert "spec.containres" in faults[0]
    assert "has neither metadata.name nor metadata.generateName" in faults[1]
    assert "the server has no kind Thing of no.such/v1" in faults[2]
    assert total == "rota: 4 of 5 objects could not be submitted"


def test_what_the_server_finds_invalid_names_the_field(rota: Rota, namespace: str, tmp_path: Path) -> None:
    broken = manifests.pod("web", restartPolicy="Sometimes")
    said = rota("submit", written(tmp_path / "a.yaml", broken), "-n", namespace)
    assert said.code == 2
    assert "spec.restartPolicy" in said.err


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            "a: {b: c\nd: [",
            "is neither YAML nor JSON: line 2, column 2: did not find expected ',' or '}' while parsing a flow mapping"
            " that begins in line 1\n",
        ),
        ("a: \x01", "is neither YAML nor JSON"),
        ("", "nothing to submit"),
        ("- 1", "is no object"),
    ],
)
def test_a_file_that_holds_no_objects_is_refused(rota: Rota, tmp_path: Path, content: str, fault: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(content)
    said = rota("submit", str(file))
    assert said.code == 2
    assert fault in said.err


def test_a_file_that_is_not_there_is_one_line(rota: Rota, tmp_path: Path) -> None:
    said = rota("submit", str(tmp_path / "none.yaml"))
    assert (said.code, said.err) == (2, f"rota: cannot read {tmp_path / 'none.yaml'}: No such file or directory\n")


def test_a_dry_run_changes_nothing(rota: Rota, namespace: str, tmp_path: Path, server: LiveServer) -> None:
    file = written(tmp_path / "a.yaml", manifests.pod("web"))
    assert rota("submit", file, "-n", namespace, "--dry-run").out == "pod/web created (dry run)\n"
    assert server.request("GET", f"/api/v1/namespaces/{namespace}/pods/web")[0] == 404


def test_two_namespaces_for_one_object_are_one_too_many(rota: Rota, namespace: str, tmp_path: Path) -> None:
    document = manifests.config_map("a")
    document["metadata"]["namespace"] = "elsewhere"
    said = rota("submit", written(tmp_path / "a.yaml", document), "-n", namespace)
    assert said.code == 2
    assert f"is of namespace elsewhere, not {namespace}" in said.err


@pytest.mark.slow
def test_a_kind_may_be_used_in_the_file_that_defines_it(rota: Rota, namespace: str, tmp_path: Path) -> None:
    definition = manifests.widgets()
    definition["metadata"]["name"] = "gadgets.shop.example"
    definition["spec"] |= {"group": "shop.example", "names": {"plural": "gadgets", "kind": "Gadget"}}
    gadget = {"apiVersion": "shop.example/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 1}}
    said = rota("submit", written(tmp_path / "a.yaml", definition, gadget), "-n", namespace)
    assert (said.code, said.lines[-1]) == (0, "gadget.shop.example/g created"), said.err


def test_fields_of_others_are_taken_over_by_force_only(
    rota: Rota, namespace: str, tmp_path: Path, server: LiveServer
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/shared"
    theirs = manifests.config_map("shared", level="1")
    code, _ = server.request("PATCH", f"{path}?fieldManager=them", theirs, content_type="application/apply-patch+yaml")
    assert code == 201
    file = written(tmp_path / "a.yaml", manifests.config_map("shared", level="2"))
    said = rota("submit", file, "-n", namespace)
    assert said.code == 2
    assert "--force takes the fields over" in said.err
    assert rota("submit", file, "-n", namespace, "--force").out == "configmap/shared changed\n"
    assert server.request("GET", path)[1]["data"] == {"level": "2"}


def test_of_a_workload_that_nothing_acts_on_is_warned_once(rota: Rota, namespace: str, tmp_path: Path) -> None:
    replication = {"replicas": 1, "selector": {"app": "x"}, "template": manifests.deployment("x")["spec"]["template"]}
    old = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": replication}
    said = rota("submit", written(tmp_path / "a.yaml", old, manifests.job("nightly")), "-n", namespace)
    assert said.lines == ["replicationcontroller/old created", "job.batch/nightly created"]
    warning, followed = said.err.splitlines()
    assert warning == "warning: no controller of Rota acts on it, so it has no pods: use a Deployment"
    assert followed == f"follow it: rota logs -f job/nightly -n {namespace}"


class TestDelete:
    def test_names_kinds_and_names_and_labels_choose(self, rota: Rota, namespace: str, server: LiveServer) -> None:
        for name in ("a", "b", "c", "d"):
            kept = {"keep": "yes"} if name == "d" else {}
            server.create(f"/api/v1/namespaces/{namespace}/configmaps", manifests.config_map(name, labels=kept))
        assert rota("delete", "cm", "a", "-n", namespace).out == "configmap/a deleted\n"
        assert rota("delete", "cm/b", "-n", namespace).out == "configmap/b deleted\n"
        assert rota("delete", "cm", "-l", "keep!=yes", "-n", namespace).out == "configmap/c deleted\n"
        assert rota("get", "cm", "-n", namespace, "-o", "name").out == "configmap/d\n"
        assert rota("delete", "cm", "--all", "-n", namespace).out == "configmap/d deleted\n"

    def test_what_a_file_describes_goes(self, rota: Rota, namespace: str, tmp_path: Path) -> None:
        file = written(tmp_path / "a.yaml", manifests.config_map("a"), manifests.config_map("b"))
        rota("submit", file, "-n", namespace)
        assert rota("delete", "-f", file, "-n", namespace).lines == ["configmap/a deleted", "configmap/b deleted"]

    def test_what_is_not_there_fails_unless_that_is_fine(self, rota: Rota, namespace: str) -> None:
        said = rota("delete", "cm", "nowhere", "-n", namespace)
        assert (said.code, said.out) == (2, "")
        assert 'configmaps "nowhere" not found' in said.err
        assert rota("delete", "cm", "nowhere", "-n", namespace, "--ignore-not-found").code == 0

    @pytest.mark.slow
    def test_a_pod_on_a_node_ends_first_and_is_waited_for(self, rota: Rota, namespace: str, server: LiveServer) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        server.create(path, manifests.pod("web", on="n"))
        said = rota("delete", "pod", "web", "-n", namespace, "--timeout", "1s")
        assert (said.code, said.out) == (2, "")
        assert "not all were gone within 1 s" in said.err
        assert rota("delete", "pod", "web", "-n", namespace, "--no-wait").out == "pod/web is being deleted\n"
        assert rota("delete", "pod", "web", "-n", namespace, "--grace-period", "0").out == "pod/web deleted\n"
        assert server.request("GET", f"{path}/web")[0] == 404

    @pytest.mark.parametrize(
        ("arguments", "fault"),
        [
            ((), "say what to delete"),
            (("pods",), "which of the pods?"),
            (("pods", "a", "--all"), "names go with neither"),
            (("pods", "a", "--now", "--grace-period", "3"), "give either --now or --grace-period"),
            (("pods", "a", "--timeout", "soon"), "'soon' is no duration"),
        ],
    )
    def test_an_incomplete_selection_deletes_nothing(self, rota: Rota, arguments: tuple[str, ...], fault: str) -> None:
        said = rota("delete", *arguments)
        assert (said.code, said.out) == (2, "")
        assert fault in said.err

    def test_a_dry_run_deletes_nothing(self, rota: Rota, namespace: str, server: LiveServer) -> None:
        server.create(f"/api/v1/namespaces/{namespace}/configmaps", manifests.config_map("a"))
        assert rota("delete", "cm", "a", "-n", namespace, "--dry-run").out == "configmap/a deleted (dry run)\n"
        assert server.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/a")[0] == 200
