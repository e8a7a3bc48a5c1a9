"""From prompts to checkpoints. The editable room: a submission may change it."""
