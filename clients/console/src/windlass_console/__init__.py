"""The console's back end: LLMServices for the pages of a browser, by the rights of the user who signed in.

It stands on the client library. It has no right in the cluster and no state of its own: a user's Kubernetes token lies
encrypted in the user's cookie, and each call to the API server carries it.
"""

__version__ = "0.2.0"
