"""The notation of the tables in this package, and its parser.

    a-role
        read  core  pods,pods/log          verbs, groups, resources
        get   core  configmaps  settings   ... and the names of objects
        get   paths  /healthz,/livez       non-resource paths
        record-events                      what every recorder of events needs
    another-role: Group/some-group User/some-user ServiceAccount/namespace/name

Subjects after a role's name are bound to it by a binding of the same name. `core` is the group without a name, `read`
means get, list and watch, `write` all verbs that change. A line that is indented further continues the last one.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_VERBS: Final = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
}
_RECORD_EVENTS: Final = "create,patch,update  core,events.k8s.io  events"
_INDENTED: Final = "    "
_CONTINUED: Final = "        "


class Grant(NamedTuple):
    """A role and its subjects."""

    name: str
    rules: tuple[dict[str, Any], ...]
    subjects: tuple[dict[str, str], ...] = ()


def read(table: str) -> Iterator[Grant]:
    """Parse the roles of a table."""
    head, rules = "", list[str]()
    for line in table.strip("\n").splitlines():
        if line.startswith(_CONTINUED) and rules:
            # in the middle of a column, or with the next one
            rules[-1] += line.strip() if rules[-1].endswith(",") else f"  {line.strip()}"
        elif line.startswith(_CONTINUED):
            head += " " + line.strip()
        elif line.startswith(_INDENTED):
            rules.append(line.strip())
        else:
            if head:
                yield _grant(head, rules)
            head, rules = line, []
    yield _grant(head, rules)


def subject(text: str) -> dict[str, str]:
    """A binding's subject from its kind and name."""
    kind, _, name = text.partition("/")
    if kind != "ServiceAccount":
        return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    namespace, _, name = name.partition("/")
    return {"kind": kind, "name": name, "namespace": namespace}


def _grant(head: str, rules: list[str]) -> Grant:
    name, _, subjects = head.partition(": ")
    return Grant(name, tuple(map(_rule, rules)), tuple(map(subject, subjects.split())))


def _rule(line: str) -> dict[str, Any]:
    columns = (_RECORD_EVENTS if line == "record-events" else line).split()
    verbs = sorted(verb for word in columns[0].split(",") for verb in _VERBS.get(word, (word,)))
    if columns[1] == "paths":
        return {"nonResourceURLs": columns[2].split(","), "verbs": verbs}
    groups = ["" if group == "core" else group for group in columns[1].split(",")]
    rule = {"apiGroups": groups, "resources": columns[2].split(","), "verbs": verbs}
    return rule | ({"resourceNames": columns[3].split(",")} if len(columns) > 3 else {})
