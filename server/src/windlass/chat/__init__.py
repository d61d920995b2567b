"""A chat client for any OpenAI-compatible server: values, one streaming call, and a conversation."""
