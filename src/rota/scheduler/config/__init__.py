"""KubeSchedulerConfiguration, from a user's file to profiles that a scheduler can run.

`resolution.load` is the way in: text and what is known of the plugins go in, a `Configuration` comes out, or a
`ConfigurationError` that names every field to mend. Pure: reading files is the caller's, finding plugins is
`rota.scheduler.plugin_registry.third_party`'s. The room stands between the framework, whose points and profiles it
speaks of, and the plugins, which take their argument structs from `args`.
"""
