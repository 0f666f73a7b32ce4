"""KubeSchedulerConfiguration: from a user's file to the profiles of a scheduler.

`resolution.load` is the entry point. It takes the text and the known plugins and returns a `Configuration`, or raises a
`ConfigurationError` that names every field to fix. This package is pure: the caller reads files, and
`rota.scheduler.plugin_registry.third_party` finds plugins. It depends on the framework, whose extension points and
profiles it uses; the plugins depend on it for their argument structs (`args`).
"""
