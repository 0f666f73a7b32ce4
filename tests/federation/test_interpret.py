"""`rota federation interpret`, on files."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rota.cli.main import root

pytest.importorskip("lupa")
pytestmark = pytest.mark.slow

OBJECT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"
CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: deployments}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    replicaResource: {luaScript: "function GetReplicas(obj) return obj.spec.replicas * 2 end"}
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(root, ["federation", "interpret", *arguments])
    return result.exit_code, result.output


def test_scripts_come_before_native_rules(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(OBJECT)
    (tmp_path / "rules.yaml").write_text(CUSTOMIZATION)
    question = ("--operation", "InterpretReplica", "--desired-file", str(tmp_path / "web.yaml"), "--json")
    assert json.loads(run(*question)[1])["replicas"] == 3
    assert json.loads(run("-f", str(tmp_path / "rules.yaml"), *question)[1])["replicas"] == 6


def test_a_script_without_its_function_is_found_by_check(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(CUSTOMIZATION)
    assert run("-f", str(rules), "--check")[0] == 0
    rules.write_text(CUSTOMIZATION.replace("GetReplicas", "Other"))
    code, said = run("-f", str(rules), "--check", "--json")
    assert code != 0
    assert "the script has no function GetReplicas" in said


def test_statuses_of_members_are_added_up_by_the_native_rules(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(OBJECT)
    items = "[{clusterName: a, status: {readyReplicas: 1}}, {clusterName: b, status: {readyReplicas: 2}}]"
    (tmp_path / "items.yaml").write_text(items)
    files = ("--desired-file", str(tmp_path / "web.yaml"), "--status-file", str(tmp_path / "items.yaml"))
    assert json.loads(run("--operation", "AggregateStatus", *files, "--json")[1])["readyReplicas"] == 3
