"""What survives a crash: the SQLite store, group commit, and the rotation of the audit log."""
