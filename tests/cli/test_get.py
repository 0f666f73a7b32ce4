"""`rota get`: objects of any kind, in any form, once or for as long as somebody looks."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Rota

from rota.testing import manifests
from rota.testing.live import LiveServer

ROTA = str(Path(sys.executable).with_name("rota"))


@pytest.fixture
def pods(server: LiveServer, namespace: str) -> str:
    """A namespace with two pods."""
    for name in ("one", "two"):
        server.create(f"/api/v1/namespaces/{namespace}/pods", manifests.pod(name, labels={"who": name}))
    return namespace


@pytest.mark.parametrize("kind", ["pods", "pod", "po", "Pod", "pods.v1."])
def test_a_kind_goes_by_any_of_its_names(rota: Rota, pods: str, kind: str) -> None:
    said = rota("get", kind, "-n", pods)
    assert said.code == 0
    assert [row[:3] for row in said.cells] == [
        ["NAME", "READY", "STATUS"],
        ["one", "0/1", "Pending"],
        ["two", "0/1", "Pending"],
    ]


def test_labels_choose_and_can_be_shown(rota: Rota, pods: str) -> None:
    said = rota("get", "pods", "-n", pods, "-l", "who=two", "--show-labels")
    assert [row[0] for row in said.cells] == ["NAME", "two"]
    assert said.lines[1].endswith("who=two")


def test_fields_choose_too(rota: Rota, pods: str) -> None:
    assert rota("get", "pods", "-n", pods, "--field-selector", "metadata.name=one", "-o", "name").out == "pod/one\n"


def test_all_namespaces_add_a_column(rota: Rota, pods: str) -> None:
    said = rota("get", "pods", "-A")
    assert said.cells[0][:2] == ["NAMESPACE", "NAME"]
    assert [pods, "one"] in [row[:2] for row in said.cells]


def test_wide_has_more_columns(rota: Rota, pods: str) -> None:
    assert "NODE" in rota("get", "pods", "-n", pods, "-o", "wide").cells[0]
    assert "NODE" not in rota("get", "pods", "-n", pods).cells[0]


def test_several_kinds_are_several_tables_with_kinds_before_the_names(
    rota: Rota, pods: str, server: LiveServer
) -> None:
    server.create(f"/api/v1/namespaces/{pods}/configmaps", manifests.config_map("settings", a="1"))
    said = rota("get", "pods,cm", "-n", pods)
    names = [row[0] for row in said.cells if row]
    assert {"pod/one", "pod/two", "configmap/settings"} <= set(names)
    assert rota("get", "pod/one", "cm/settings", "-n", pods, "-o", "name").out == "pod/one\nconfigmap/settings\n"


def test_one_object_is_a_document_and_many_are_a_list(rota: Rota, pods: str) -> None:
    one = json.loads(rota("get", "pod", "one", "-n", pods, "-o", "json").out)
    assert (one["kind"], one["metadata"]["name"]) == ("Pod", "one")
    assert "managedFields" not in one["metadata"]
    many = yaml.safe_load(rota("get", "pods", "-n", pods, "-o", "yaml").out)
    assert (many["kind"], [item["metadata"]["name"] for item in many["items"]]) == ("List", ["one", "two"])


def test_what_is_there_is_shown_beside_what_is_not(rota: Rota, pods: str) -> None:
    said = rota("get", "pods", "one", "nowhere", "-n", pods)
    assert said.code == 2
    assert [row[0] for row in said.cells] == ["NAME", "one"]
    assert said.err == 'rota: pods "nowhere" not found\n'


def test_nothing_is_said_to_be_nothing(rota: Rota, namespace: str) -> None:
    said = rota("get", "jobs", "-n", namespace)
    assert (said.code, said.out) == (0, "")
    assert said.err == f"no jobs in namespace {namespace}; -A looks in all of them\n"


def test_an_unknown_kind_is_guessed_at(rota: Rota) -> None:
    said = rota("get", "pdos")
    assert (said.code, said.err) == (2, "rota: the server has no kind 'pdos'; did you mean 'pods'?\n")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("pods", "one", "-l", "a=b"), "names go with neither selectors nor --all-namespaces"),
        (("pods,nodes", "--watch"), "only one kind, or one object, can be watched at a time"),
        (("pods/", "-o", "name"), "'pods/' names no object"),
        (("pods", "-l", "a in (("), "unable to parse requirement"),
    ],
)
def test_what_makes_no_sense_is_one_line(rota: Rota, arguments: tuple[str, ...], fault: str) -> None:
    said = rota("get", *arguments)
    assert (said.code, said.out) == (2, "")
    assert fault in said.err
    assert said.err.count("\n") == 1


def test_custom_kinds_have_their_own_columns(rota: Rota, server: LiveServer, namespace: str) -> None:
    server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifests.widgets())
    server.established("widgets.example.com")
    server.create(f"/apis/example.com/v1/namespaces/{namespace}/widgets", manifests.widget("w", size=3))
    assert rota("get", "wd", "-n", namespace).cells[:2] == [["NAME", "SIZE"], ["w", "3"]]


@pytest.mark.slow
def test_watching_goes_on_until_it_is_interrupted(server: LiveServer, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    server.create(path, manifests.config_map("first"))
    command = [ROTA, "get", "cm", "-n", namespace, "--watch", "-o", "name", "--server", server.url]
    with server.watched() as somebody_watches, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "configmap/first\n"
        somebody_watches()
        server.create(path, manifests.config_map("second"))
        assert process.stdout.readline() == "configmap/second\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


@pytest.mark.slow
def test_a_watched_table_adds_lines_in_a_pipe(server: LiveServer, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    server.create(path, manifests.config_map("first"))
    command = [ROTA, "get", "cm", "-n", namespace, "--watch", "--server", server.url]
    with server.watched() as somebody_watches, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().split()[0] for _ in range(2)] == ["NAME", "first"]
        somebody_watches()
        server.create(path, manifests.config_map("second", a="1"))
        assert process.stdout.readline().split()[:2] == ["second", "1"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
