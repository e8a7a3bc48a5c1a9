"""A sampler of our own for Qwen2, Qwen3 and Llama decoders, on the trainer's own weights. docs/engine.md draws it."""
