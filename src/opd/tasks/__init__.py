"""The embedded tasks: a folder each, with its problems, its models, and the program that made them."""
