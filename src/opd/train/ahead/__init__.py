"""What is known of a run before step one: what it needs and will see, what looks wrong, and two real steps."""
