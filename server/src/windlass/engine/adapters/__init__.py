"""LoRA adapters: those of the model directory and those given, served by name or merged into the weights."""
