"""What several API processes of one server share (docs/adr/0093-one-owner-for-api-processes.md)."""
