"""Errors of the test cluster.

* BedError: the machine or a tool refused; the message says what, where and what to do. The command line prints it
  as one sentence and exits 1.
"""


class BedError(Exception):
    """Something outside of this program refused; the message is meant for the person at the keyboard."""
