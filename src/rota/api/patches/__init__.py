"""Patches: the four ways in which Kubernetes clients change an object, as pure functions over plain JSON values.

- `merge`: JSON merge patch (RFC 7386), `apply(target, patch)` and `diff(before, after)`
- `json_patch`: JSON patch (RFC 6902), `apply(document, operations)` with limits against abuse
- `strategic`: strategic merge patch, `apply(original, patch, schema)` with the directives kubectl sends
- `apply`: server-side apply, `apply(live, config, ...)`, and `update(live, new, ...)` for every other write
- `schemas`, `structural`, `versions`: the facts about built-in and custom kinds that the last two need:
  `schemas.for_kind(api_version, kind)`, `structural.from_openapi(schema)`, `versions.Versions(schemas={...})`
- `errors`: one class for each response of the API

Below them: `field_ownership` (the rules of server-side apply), `managed` (managedFields), `fieldsets` and `field_paths`
(owners of fields), `typed` and `validation` (values seen through a schema), `json_values`. Nothing here does I/O,
reads a clock or changes its arguments; results share nothing with them.
"""
