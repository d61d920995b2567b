"""The plug-in `kubectl windlass`: status, plan preview, logs, chat, and a report for a bug; all through the client.

A program of its own: no other package imports it, and nothing of the operator is needed. It is no part of
`windlass_client`, whose import is what a command's own help does without.
"""

__version__ = "0.2.0"
