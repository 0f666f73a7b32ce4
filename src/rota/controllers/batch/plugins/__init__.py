"""Plugins of a Job: each completes the Job's pods, and may give the Job objects of its own. Pure, one file each."""
