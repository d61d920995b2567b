"""The plug-in `kubectl windlass`: status, plan preview, logs, chat, and a report for a bug; all through the client."""
