"""The roles for a stock Kubernetes grant exactly what `rota resolver` uses."""

from pathlib import Path

import yaml

from rota.resolver import rights
from rota.resolver.service import Settings

ROLES = Path(__file__).parents[2] / "docs" / "examples" / "resolver.yaml"


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
    used = rights.needed(Settings(address=("", 0), tls=None, registered=("https://resolver", b"")))
    assert granted == {(one.verb, one.group, one.resource, one.namespace, one.name) for one in used}
