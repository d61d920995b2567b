"""Limits of keys, held by all replicas of a service together (docs/adr/0055-one-replica-decides-limits.md)."""
