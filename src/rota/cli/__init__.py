"""The command line: one module per command with its arguments, help and examples.

What a command does is in `rota.cli.commands` and in the components; it is imported when the command runs.
"""
