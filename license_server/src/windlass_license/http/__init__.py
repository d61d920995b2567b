"""The HTTP side: connections, paths, statuses, pages and metrics over the service."""
