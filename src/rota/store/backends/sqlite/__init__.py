"""The store in one SQLite file, shared by any number of processes of one machine. The default.

`engine` reads and writes the tables, `schema` creates and recognises them, `read_cache` keeps recent entries in memory,
`commit_notifier` notifies other processes of commits, `faults` translates SQLite's error codes.
"""
