"""Rules by kind that users bring: Lua scripts, webhooks and Python entry points, in front of the native ones.

`interpreter.py` asks them in order. Native and generic rules are in `interpreters/`, which is pure; here are the child
process and the HTTP requests.
"""
