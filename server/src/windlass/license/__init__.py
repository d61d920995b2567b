"""Asks the license server whether the GPUs of this container may be used, and keeps the lease alive."""
