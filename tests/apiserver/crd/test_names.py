import copy
from typing import Any

from rota.api import scheme
from rota.apiserver.crd import definitions, deletion
from rota.apiserver.crd import names as crd_names

Definition = dict[str, Any]
_NOW = 1_700_000_000.0


def _named(definition: Definition, plural: str, kind: str, **names: Any) -> Definition:
    other = copy.deepcopy(definition)
    other["metadata"]["name"] = f"{plural}.shop.example.com"
    other["spec"]["names"] = {"plural": plural, "kind": kind, **names}
    definitions.set_defaults(other)
    return other


def _accepted(definition: Definition, *others: Definition) -> Definition:
    definitions.set_defaults(definition)
    taken = crd_names.claims(definition, others, ())
    return {**definition, "status": crd_names.status(definition, taken, now=_NOW)}


def test_free_names_are_accepted_and_the_kind_is_established(definition: Definition) -> None:
    served = _accepted(definition)
    assert served["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "shortNames": ["wd"],
        "kind": "Widget",
        "listKind": "WidgetList",
        "categories": ["all"],
    }
    conditions = {one["type"]: (one["status"], one["reason"]) for one in served["status"]["conditions"]}
    assert conditions == {"NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted")}
    assert served["status"]["conditions"][0]["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert definitions.is_established(served)


def test_a_status_that_is_right_stays_as_it_is(definition: Definition) -> None:
    served = _accepted(definition)
    taken = crd_names.claims(served, [served], ())
    assert crd_names.status(served, taken, now=_NOW + 60) == served["status"]


def test_a_new_definition_does_not_get_names_in_use(definition: Definition) -> None:
    first = _accepted(definition)
    second = _accepted(_named(definition, "gadgets", "Widget", shortNames=["wd", "gd"]), first)
    conditions = {one["type"]: one for one in second["status"]["conditions"]}
    assert conditions["NamesAccepted"]["status"] == "False"
    assert (conditions["NamesAccepted"]["reason"], conditions["NamesAccepted"]["message"]) == (
        "ListKindConflict",
        '"WidgetList" is already in use',
    )
    assert conditions["Established"]["reason"] == "NotAccepted"
    assert second["status"]["acceptedNames"] == {"plural": "gadgets"}
    assert not definitions.is_established(second)


def test_a_served_kind_stays_served_when_its_new_name_is_taken(definition: Definition) -> None:
    first = _accepted(definition)
    second = _accepted(_named(definition, "gadgets", "Gadget"), first)
    second["spec"]["names"]["shortNames"] = ["wd"]
    taken = crd_names.claims(second, [first, second], ())
    status = crd_names.status(second, taken, now=_NOW)
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "NamesAccepted": "False",
        "Established": "True",
    }
    assert "shortNames" not in status["acceptedNames"]


def test_names_of_other_groups_do_not_matter(definition: Definition) -> None:
    first = _accepted(definition)
    other = _named(definition, "widgets", "Widget")
    other["spec"]["group"] = "else.example.com"
    other["metadata"]["name"] = "widgets.else.example.com"
    assert definitions.is_established(_accepted(other, first))


def test_names_of_built_in_kinds_are_taken(definition: Definition) -> None:
    mine = _named(definition, "jobs", "Job")
    mine["spec"]["group"] = "batch"
    taken = crd_names.claims(mine, [], scheme.builtin())
    status = crd_names.status(mine, taken, now=_NOW)
    assert {one["type"]: one["status"] for one in status["conditions"]}["Established"] == "False"


def test_a_definition_goes_after_its_objects(definition: Definition) -> None:
    served = _accepted(definition)
    served["metadata"]["finalizers"] = [deletion.FINALIZER, "mine/too"]
    assert deletion.next_step(served, objects_left=3) is deletion.Step.NOTHING
    served["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z"
    assert deletion.next_step(served, objects_left=3) is deletion.Step.DELETE_OBJECTS
    waiting = deletion.terminating(served, now=_NOW)
    assert definitions.condition(waiting, "Terminating")["reason"] == "InstanceDeletionInProgress"
    assert deletion.next_step(waiting, objects_left=0) is deletion.Step.FINISH
    done = deletion.finished(waiting, now=_NOW)
    assert done["metadata"]["finalizers"] == ["mine/too"]
    assert definitions.condition(done, "Terminating")["status"] == "False"
    assert deletion.next_step(done, objects_left=0) is deletion.Step.NOTHING


def test_a_definition_that_was_never_served_takes_no_objects_with_it(definition: Definition) -> None:
    definition["metadata"] |= {"finalizers": [deletion.FINALIZER], "deletionTimestamp": "2023-11-14T22:13:20Z"}
    assert deletion.next_step(definition, objects_left=3) is deletion.Step.FINISH
