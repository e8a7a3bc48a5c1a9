"""What is handed over and what is written down: nouns, settings, files. No tensors; imports no other room."""
