"""The only place that talks to the API server and to pods: reading, server-side apply, status, Events."""
