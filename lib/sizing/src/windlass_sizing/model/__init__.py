"""The facts of a model as its config.json and adapter_config.json tell them. No file is opened here."""
