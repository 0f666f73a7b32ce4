"""What an API server takes down of evictions and deletions of pods: who asked for which pod, and what was answered."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Request", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/eviction"]}]},
        {"level": "Request", "verbs": ["delete"], "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request about one pod."""

    #: "create" for an eviction, "delete" for a deletion.
    verb: str
    user: str
    pod: str
    uid: str
    code: int
    message: str


class Audit:
    """The audit log of one server; `flags` go to its command line."""

    def __init__(self, folder: Path) -> None:
        self._log: Final = folder / "audit.log"
        policy = folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(_POLICY), encoding="utf-8")
        self.flags: Final = {"audit_policy_file": str(policy), "audit_log_path": str(self._log)}

    def asked(self, *, by: str, namespace: str) -> list[Asked]:
        """All requests of one user about pods of a namespace, in their order."""
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        found = (_asked(json.loads(line)) for line in lines)
        return [one for one in found if one.user == by and one.pod.startswith(f"{namespace}/")]


def granted(asked: Iterable[Asked]) -> Counter[str]:
    """How often each pod was told to go, by uid: evicted or deleted."""
    return Counter(one.uid for one in asked if one.code < 300)


def _asked(event: Mapping[str, Any]) -> Asked:
    about, body = event["objectRef"], event.get("requestObject") or {}
    options = body.get("deleteOptions") or body
    answer = event.get("responseStatus") or {}
    return Asked(
        verb=event["verb"],
        user=event["user"]["username"],
        pod=f"{about.get('namespace')}/{about.get('name')}",
        uid=(options.get("preconditions") or {}).get("uid") or "",
        code=answer.get("code") or 0,
        message=answer.get("message") or "",
    )
