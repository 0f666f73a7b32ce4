"""Preemption: the choice of victims, and their eviction."""
