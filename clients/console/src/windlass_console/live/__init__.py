"""Live lists: one watch of the API server for each user and namespace, shared by the streams of the pages."""
