"""The plug-in `kubectl windlass`: status, plan preview, logs, chat, and a report for a bug; all through the client.

A program of its own: no other package imports it, and it knows nothing of the operator's process.
"""
