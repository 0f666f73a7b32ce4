"""Loaders: each reads the files of one public schema and produces a `Trace`, nothing else."""
