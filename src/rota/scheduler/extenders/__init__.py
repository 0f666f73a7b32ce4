"""Extenders: external programs that filter and score nodes, choose victims and bind. Called between decisions."""
