"""Continuous backup: base backups and the log since them, for a restore to any moment.

`places` is the interface of what keeps them: a `folder`, or a `bucket` of the S3 API (`s3_client`). `segments` is the
file format of the log, and `catalog` knows which files a place holds and which it still needs. `bases` takes complete
backups, `follower` also writes the log, `recovery` computes the state at a moment, `metrics` shows how far they are.
"""
