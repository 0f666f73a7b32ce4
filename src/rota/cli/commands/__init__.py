"""What the commands do after their arguments are parsed: requests to a server, output, exit codes.

Modules here are imported when a command runs, so help and refused options stay quick. Decisions are in the components.
"""
