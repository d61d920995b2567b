"""Measurements that a user can repeat: `windlass bench`. Nothing here is imported by serving."""
