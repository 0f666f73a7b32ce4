"""Usual manifests through kubectl and back, and custom kinds of real projects."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.testing.kubectl import Kubectl, documents
from rota.testing.live import LiveServer

pytestmark = [pytest.mark.slow, pytest.mark.kubectl]

FOLDER = Path(__file__).parent / "manifests"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.yaml") if ".crd." not in path.name)


def _lost(sent: Any, stored: Any, path: str = "") -> list[str]:
    """Paths of what was sent and did not come back the same; the server may add to it."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return [one for name, value in sent.items() for one in _lost(value, stored.get(name), f"{path}.{name}")]
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) <= len(stored):
        return [one for at, value in enumerate(sent) for one in _lost(value, stored[at], f"{path}[{at}]")]
    return [] if sent == stored else [f"{path}: {sent!r} became {stored!r}"]


@pytest.mark.parametrize("name", EXAMPLES)
class TestExamples:
    def test_everything_in_it_is_stored_as_written(self, kubectl: Kubectl, name: str) -> None:
        sent = list(yaml.safe_load_all((FOLDER / name).read_text()))
        kubectl("apply", f"--filename={FOLDER / name}")
        stored = kubectl.json("get", f"--filename={FOLDER / name}")["items"]
        assert [(one["kind"], one["metadata"]["name"]) for one in stored] == [
            (one["kind"], one["metadata"]["name"]) for one in sent
        ]
        lost = [loss for one, other in zip(sent, stored, strict=True) for loss in _lost(one, other, one["kind"])]
        assert lost == []

    def test_applying_it_again_by_either_side_changes_nothing(self, kubectl: Kubectl, name: str) -> None:
        def versions() -> list[Any]:
            stored = kubectl.json("get", f"--filename={FOLDER / name}")["items"]
            return [(one["metadata"]["resourceVersion"], one["metadata"].get("generation")) for one in stored]

        kubectl("apply", f"--filename={FOLDER / name}")
        first = versions()
        kubectl("apply", f"--filename={FOLDER / name}")
        assert versions() == first
        kubectl("apply", "--server-side", "--force-conflicts", f"--filename={FOLDER / name}")
        taken_over = versions()
        assert [generation for _, generation in taken_over] == [generation for _, generation in first]
        kubectl("apply", "--server-side", f"--filename={FOLDER / name}")
        assert versions() == taken_over


class TestACustomKind:
    @pytest.fixture(autouse=True)
    def _defined(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl("apply", f"--filename={FOLDER / 'crontabs.crd.yaml'}")
        assert "condition met" in kubectl(
            "wait", "--for=condition=Established", "crd/crontabs.stable.example.com", "--timeout=10s"
        )

    def _tab(self, name: str, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "stable.example.com/v1",
            "kind": "CronTab",
            "metadata": {"name": name},
            "spec": {"cronSpec": "* * * * 5", "image": "app:1", **spec},
        }

    def test_gets_its_defaults_and_is_printed_in_its_columns(self, kubectl: Kubectl) -> None:
        assert kubectl.apply(self._tab("a", port="http")) == "crontab.stable.example.com/a created\n"
        head, row = (re.split(r"\s{2,}", line) for line in kubectl("get", "ct", "-o=wide").splitlines())
        assert head == ["NAME", "SPEC", "REPLICAS", "MODE", "AGE"]
        assert row[:4] == ["a", "* * * * 5", "1", "careful"]
        assert "MODE" not in kubectl("get", "crontabs")
        assert kubectl("get", "tabs", "-o=name") == "crontab.stable.example.com/a\n"

    def test_is_validated_with_every_cause(self, kubectl: Kubectl) -> None:
        refused = kubectl.run(
            "create", "--filename=-", stdin=documents(self._tab("a", cronSpec="daily", replicas=11, mode="lazy"))
        )
        assert refused.code == 1
        assert 'The CronTab "a" is invalid' in refused.err
        for words in ("spec.cronSpec", "spec.replicas", 'spec.mode: Unsupported value: "lazy"'):
            assert words in refused.err

    def test_loses_fields_that_its_schema_does_not_know(self, kubectl: Kubectl) -> None:
        tab = documents(self._tab("a", colour="red", extra={"any": {"thing": 1}}))
        refused = kubectl.run("create", "--filename=-", stdin=tab)
        assert 'unknown field "spec.colour"' in refused.err
        kubectl("create", "--validate=ignore", "--filename=-", stdin=tab)
        spec = kubectl.json("get", "crontab", "a")["spec"]
        assert ("colour" in spec, spec["extra"]) == (False, {"any": {"thing": 1}})

    def test_has_a_status_of_its_own(self, kubectl: Kubectl) -> None:
        tab = self._tab("a")
        tab["status"] = {"replicas": 9}
        kubectl("create", "--filename=-", stdin=documents(tab))
        created = kubectl.json("get", "crontab", "a")
        assert ("status" in created, created["metadata"]["generation"]) == (False, 1)
        kubectl("patch", "crontab", "a", "--subresource=status", "--type=merge", '--patch={"status":{"replicas":2}}')
        patched = kubectl.json("get", "crontab", "a")
        assert (patched["status"]["replicas"], patched["metadata"]["generation"]) == (2, 1)

    def test_can_be_waited_for(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl.apply(self._tab("a"))
        with (
            live.watched() as watched,
            kubectl.running("wait", "--for=condition=Ready", "crontab/a", "--timeout=20s") as lines,
        ):
            watched()
            status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
            kubectl("patch", "crontab", "a", "--subresource=status", "--type=merge", f"--patch={status}")
            assert lines.next() == "crontab.stable.example.com/a condition met"

    def test_is_scaled(self, kubectl: Kubectl) -> None:
        kubectl.apply(self._tab("a"))
        assert kubectl("scale", "crontab", "a", "--replicas=4") == "crontab.stable.example.com/a scaled\n"
        assert kubectl("get", "crontab", "a", "-o=jsonpath={.spec.replicas}") == "4"

    def test_is_merged_by_key_on_the_server(self, kubectl: Kubectl) -> None:
        one = self._tab("a", env=[{"name": "A", "value": "1"}])
        other = {**self._tab("a"), "spec": {"env": [{"name": "B", "value": "2"}]}}
        kubectl.apply(one, arguments=("--server-side", "--field-manager=one"))
        kubectl.apply(other, arguments=("--server-side", "--field-manager=other", "--validate=false"))
        names = kubectl("get", "crontab", "a", "-o=jsonpath={.spec.env[*].name}")
        assert sorted(names.split()) == ["A", "B"]

    def test_is_explained(self, kubectl: Kubectl) -> None:
        assert "When it runs, in five fields." in kubectl("explain", "crontab.spec.cronSpec")
        assert re.search(r"replicas\s+<integer>", kubectl("explain", "crontab.spec"))

    def test_is_watched_as_rows(self, kubectl: Kubectl) -> None:
        with kubectl.running("get", "crontabs", "--watch") as lines:
            kubectl.apply(self._tab("a"))
            assert lines.until("a ").split()[:1] == ["a"]
            kubectl.apply(self._tab("a", replicas=3))
            assert lines.next().split()[-2] == "3"


class TestSeveralVersions:
    def test_an_object_is_served_in_each_and_warned_of_in_the_old_one(self, kubectl: Kubectl) -> None:
        kubectl("apply", f"--filename={FOLDER / 'backups.crd.yaml'}")
        kubectl("wait", "--for=condition=Established", "crd/backups.disks.example.com", "--timeout=10s")
        name = f"b-{kubectl.namespace}"
        old = {"apiVersion": "disks.example.com/v1beta1", "kind": "Backup", "metadata": {"name": name}}
        done = kubectl.run("create", "--filename=-", stdin=documents({**old, "spec": {"target": "here"}}))
        assert done.code == 0, done.err
        assert "Warning: disks.example.com/v1beta1 Backup is deprecated; use v1" in done.err
        assert kubectl.json("get", "backups.v1beta1.disks.example.com", name)["spec"] == {"target": "here"}
        new = kubectl.json("get", "backup", name)
        assert (new["apiVersion"], new["spec"]) == ("disks.example.com/v1", {"target": "here"})
        # what is sent in a version gets that version's defaults
        kubectl.apply({**new, "metadata": {"name": name}})
        assert kubectl.json("get", "backup", name)["spec"] == {"target": "here", "keep": 7}
        refused = kubectl.run("get", "backups.v1alpha1.disks.example.com")
        assert "doesn't have a resource type" in refused.err

    def test_the_kind_goes_with_its_definition(self, kubectl: Kubectl, live: LiveServer) -> None:
        kubectl("apply", f"--filename={FOLDER / 'backups.crd.yaml'}")
        kubectl("wait", "--for=condition=Established", "crd/backups.disks.example.com", "--timeout=10s")
        kubectl("delete", "crd", "backups.disks.example.com", "--timeout=15s")
        assert live.request("GET", "/apis/disks.example.com/v1/backups")[0] == 404
        assert live.request("GET", "/apis/disks.example.com")[0] == 404
