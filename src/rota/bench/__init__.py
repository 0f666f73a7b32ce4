"""Measurements as ratios to a reference taken in the same run; one file per part measured."""
