"""The file with the defaults and exemptions of Pod Security admission."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.api.users import ADMINISTRATOR, User
from rota.apiserver.admission import pod_security_config
from rota.apiserver.admission.pod_security import Configuration, Level, Levels
from rota.apiserver.admission.pod_security_config import ConfigurationError
from rota.apiserver.interfaces import Credentials
from rota.testing.api import ApiServer

_INNER: dict[str, Any] = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}
_OUTER: dict[str, Any] = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}


def _plugin(**configuration: Any) -> dict[str, Any]:
    return {**_OUTER, "plugins": [{"name": "PodSecurity", "configuration": {**_INNER, **configuration}}]}


def test_defaults_and_exemptions_are_read(tmp_path: Path) -> None:
    given = _plugin(
        defaults={"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"},
        exemptions={"usernames": ["ci"], "namespaces": ["kube-system"], "runtimeClasses": ["sandbox"]},
    )
    wanted = Configuration(
        defaults=Levels(Level("baseline", "v1.30"), Level(), Level("restricted")),
        usernames=frozenset({"ci"}),
        namespaces=frozenset({"kube-system"}),
        runtime_classes=frozenset({"sandbox"}),
    )
    path = tmp_path / "admission.yaml"
    path.write_text(yaml.safe_dump(given))
    assert pod_security_config.load(path) == wanted
    assert pod_security_config.parse(given["plugins"][0]["configuration"]) == wanted
    assert pod_security_config.parse(_OUTER) == Configuration()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "Expected `object`"),
        ({**_OUTER, "kind": "Other"}, "write a AdmissionConfiguration of apiserver.config.k8s.io/v1"),
        ({**_OUTER, "plugins": [{"name": "ImagePolicyWebhook"}]}, "remove it from the file"),
        ({**_OUTER, "plugins": [{"name": "PodSecurity", "path": "x.yaml"}]}, "plugins[0].path is not read"),
        ({**_OUTER, "plugins": _plugin()["plugins"] * 2}, "configured twice"),
        ({**_INNER, "apiVersion": "v2"}, "write a PodSecurityConfiguration of"),
        (_plugin(defaults={"enforce": "strict"}), "must be one of privileged, baseline, restricted"),
        (_plugin(defaults={"audit-version": "1.30"}), "defaults.audit-version"),
        (_plugin(exemptions={"namespaces": ["a", "a"]}), "exemptions.namespaces[1]: Duplicate value"),
        (_plugin(exemptions={"namespaces": ["A"]}), "exemptions.namespaces[0]"),
        (_plugin(exemptions={"runtimeClasses": ["-"]}), "exemptions.runtimeClasses[0]"),
        (_plugin(exemptions={"usernames": [""]}), "username must not be empty"),
        (_plugin(exemptions={"groups": ["x"]}), "unknown field"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, given: Any, why: str) -> None:
    path = tmp_path / "admission.yaml"
    path.write_text(yaml.safe_dump(given))
    with pytest.raises(ConfigurationError) as error:
        pod_security_config.load(path)
    assert str(path) in str(error.value)
    assert why in str(error.value)


async def test_defaults_hold_in_namespaces_without_labels() -> None:
    configuration = Configuration(defaults=Levels(enforce=Level("baseline")), namespaces=frozenset({"free"}))
    pod = {"metadata": {"name": "p"}, "spec": {"hostPID": True, "containers": [{"name": "c", "image": "i"}]}}
    async with ApiServer(pod_security=configuration) as api:
        refused = await api.post("/api/v1/namespaces/default/pods", pod)
        assert refused.code == 403
        assert 'violates PodSecurity "baseline:latest": host namespaces (hostPID=true)' in refused.json["message"]
        assert (await api.post("/api/v1/namespaces", {"metadata": {"name": "free"}})).code == 201
        accounts = "/api/v1/namespaces/free/serviceaccounts"
        assert (await api.post(accounts, {"metadata": {"name": "default"}})).code in (201, 409)
        assert (await api.post("/api/v1/namespaces/free/pods", pod)).code == 201
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        assert (await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": labels}})).code == 200
        assert (await api.post("/api/v1/namespaces/default/pods", pod)).code == 201


class _As:
    """Every request is one user's, who may change from request to request."""

    def __init__(self) -> None:
        self.user = ADMINISTRATOR

    def recall(self, credentials: Credentials, /) -> User | None:
        return self.user

    def flow(self, credentials: Credentials, /) -> str:
        return self.user.name

    async def authenticate(self, credentials: Credentials, /) -> User:
        return self.user


async def test_what_is_admitted_for_an_exempt_user_is_not_admitted_for_others() -> None:
    configuration = Configuration(usernames=frozenset({"ci"}))
    caller = _As()
    pods = "/api/v1/namespaces/default/pods"

    def pod(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"hostPID": True, "containers": [{"name": "c", "image": "i"}]}}

    async with ApiServer(pod_security=configuration, authenticator=caller) as api:
        labels = {"pod-security.kubernetes.io/enforce": "baseline"}
        assert (await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": labels}})).code == 200
        for user, code in ((User(name="ci", groups=ADMINISTRATOR.groups), 201), (ADMINISTRATOR, 403)):
            caller.user = user
            codes = [(await api.post(pods, pod(f"{user.name.replace(':', '-')}-{n}"))).code for n in range(6)]
            assert codes == [code] * 6
