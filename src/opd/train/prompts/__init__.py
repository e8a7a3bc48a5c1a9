"""From the rows of a data file to the prompts of a step."""
