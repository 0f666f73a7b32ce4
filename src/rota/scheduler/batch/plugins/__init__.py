"""The plugins of batch scheduling, one file each."""
