"""The actions of batch scheduling, one file each."""
