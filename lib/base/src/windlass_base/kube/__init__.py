"""The way to the API server: who asks which one, a request and its refusal, and the Lease that one replica holds."""
