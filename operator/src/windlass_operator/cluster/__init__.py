"""The only place that talks to the API server and to pods: reading, server-side apply, status, Events.

`reconcile` and `runtime` call it. `client` and `kubectl` use its pure modules alone: what pods claim of GPUs, and what
nodes offer.
"""
