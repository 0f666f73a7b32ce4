"""What is reported about pods: fit errors, status patches, references to objects."""
