"""The store in one SQLite file, shared by any number of processes of one machine. The default.

`engine` reads and writes the tables, `schema` makes and recognises them, `commit_notifier` tells other processes that
something was committed, `faults` turns SQLite's error codes into ours.
"""
