"""vLLM as a second backend: a sampler and a teacher's scorer in this process, on copies of the trainer's weights."""
