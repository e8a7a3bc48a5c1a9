"""Several processes that make one run, a GPU each: who does what, what they say to each other, when one is lost."""
