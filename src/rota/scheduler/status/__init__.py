"""Reports about pods: fit errors, the writer of pod status patches, references to objects."""
