"""What is read and written through the API server for more than one service at a time."""
