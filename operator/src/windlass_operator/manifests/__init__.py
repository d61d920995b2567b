"""Pure: the Kubernetes objects of one LLMService as plain dicts, in the field order of their golden files."""
