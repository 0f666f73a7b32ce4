"""The objects behind the API: resourceVersions, creation, update and deletion over the store.

`objects` has the generic verbs, `writes` the transactions. Byte templates for repeated pods are in `create_templates`
and `status_templates`. The rules of single kinds are in `strategies`.
"""
