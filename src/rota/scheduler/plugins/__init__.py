"""The plugins, one file each, readable alone."""
