"""Preemption: the choice of victims (`victims`) and their eviction (`evictions`). The plugin is
`plugins.default_preemption`."""
