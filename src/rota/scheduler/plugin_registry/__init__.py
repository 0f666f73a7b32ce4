"""The plugins that exist: built-in ones, and third-party plugins loaded by entry point or path; and where the
configuration comes from."""
