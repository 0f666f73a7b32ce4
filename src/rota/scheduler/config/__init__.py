"""KubeSchedulerConfiguration, from a user's file to profiles that a scheduler can run.

`resolution.load` is the way in: text and a catalogue of plugins go in, a `Configuration` comes out, or a
`ConfigurationError` that names every field to mend. Pure: reading files is the caller's, finding plugins is
`rota.scheduler.loading`'s. The room imports nothing of the framework and nothing of the plugins; both import it (the
framework for points and profiles, the plugins for their argument structs).
"""
