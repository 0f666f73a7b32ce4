"""Kinds that are defined at run time: what a definition may say, and what it makes of the objects of its kind."""
