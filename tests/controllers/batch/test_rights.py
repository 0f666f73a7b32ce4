"""The roles for a stock Kubernetes grant exactly what `rota batch-controller` uses."""

from pathlib import Path

import yaml

from rota.controllers.batch import rights
from rota.controllers.batch.beside import Settings

ROLES = Path(__file__).parents[3] / "docs" / "examples" / "batch-controller-roles.yaml"


def test_the_roles_grant_what_is_used_and_nothing_else() -> None:
    granted = {
        (verb, group, resource, document["metadata"].get("namespace", ""), name)
        for document in yaml.safe_load_all(ROLES.read_text())
        for rule in document.get("rules") or ()
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
    }
    used = rights.needed(Settings(registered=("https://webhooks", b"")))
    assert granted == {(one.verb, one.group, one.resource, one.namespace, one.name) for one in used}
