"""The query parameters of list, watch and deletecollection, checked as upstream checks them."""

from dataclasses import dataclass
from typing import Final

from rota.api import errors, fields, gotext
from rota.api.identifiers import GroupKind
from rota.apiserver.registry import revisions
from rota.apiserver.registry.selection import Selection
from rota.apiserver.verbs.calls import Call

_KIND: Final = GroupKind("meta.k8s.io", "ListOptions")
EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"
_MATCH: Final = fields.Path("resourceVersionMatch")
_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The parameters of a list or watch."""

    selection: Selection
    limit: int
    continue_: revisions.ContinueToken | None
    #: As sent: "" and "0" mean different things.
    resource_version: str
    #: The same as a number.
    revision: int
    match: str
    timeout_s: int
    bookmarks: bool
    initial_events: bool | None


def read(call: Call, *, watching: bool) -> ListOptions:
    """Parse the request's parameters; BadRequest or Invalid if they are wrong, alone or in combination."""
    query = call.request.query
    options = ListOptions(
        selection=_selection(call),
        limit=_number(query.get("limit", "")),
        continue_=revisions.parse_continue(query["continue"]) if query.get("continue") else None,
        resource_version=query.get("resourceVersion", ""),
        revision=revisions.parse(query.get("resourceVersion", "")),
        match=query.get("resourceVersionMatch", ""),
        timeout_s=_number(query.get("timeoutSeconds", "")),
        bookmarks=call.request.flag("allowWatchBookmarks"),
        initial_events=call.request.flag("sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    wrong = _check_watch(options) if watching else _check_list(options)
    if wrong:
        raise errors.invalid(_KIND, "", wrong)
    return options


def _selection(call: Call) -> Selection:
    query = call.request.query
    fields_text = query.get("fieldSelector", "")
    if call.at.name:
        named = f"metadata.name={call.at.name}"
        fields_text = f"{fields_text},{named}" if fields_text else named
    schema = call.schema
    return Selection(
        call.resource,
        labels=query.get("labelSelector", ""),
        fields=fields_text,
        extra_fields=schema.selectable_fields if schema else None,
    )


def _number(text: str) -> int:
    if not text:
        return 0
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text)
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 19 or sign * int(digits) not in _INT64:
        raise errors.bad_request(f"strconv.ParseInt: parsing {gotext.quote(text)}: invalid syntax")
    return sign * int(digits)


def _check_list(options: ListOptions) -> list[fields.FieldError]:
    wrong = []
    if options.initial_events is not None:
        path = fields.Path("sendInitialEvents")
        wrong.append(fields.forbidden(path, "sendInitialEvents is forbidden for list"))
    match = options.match
    if not match:
        return wrong
    if not options.resource_version:
        wrong.append(fields.forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if options.continue_ is not None:
        wrong.append(fields.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    if match not in {EXACT, NOT_OLDER_THAN}:
        wrong.append(fields.not_supported(_MATCH, match, [EXACT, NOT_OLDER_THAN, ""]))
    if match == EXACT and options.resource_version == "0":
        wrong.append(fields.forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return wrong


def _check_watch(options: ListOptions) -> list[fields.FieldError]:
    wrong = []
    if options.initial_events is None:
        if options.match:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            wrong.append(fields.forbidden(_MATCH, why))
    elif not options.match:
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        wrong.append(fields.forbidden(_MATCH, why))
    if options.match and options.match != NOT_OLDER_THAN:
        wrong.append(fields.not_supported(_MATCH, options.match, [NOT_OLDER_THAN]))
    return wrong
