"""Pictures for papers, each with its data: curves over steps, scores, paired differences, lengths."""
