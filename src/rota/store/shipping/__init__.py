"""Continuous backup: a folder of base backups and of the log since them, for a restore to any moment.

`segments` is the file format of the log, `catalog` knows which files a folder holds and which it still needs,
`follower` writes the folder while the store is in use, and `recovery` computes the state at a moment. Copying the
folder to another machine is the operator's part.
"""
