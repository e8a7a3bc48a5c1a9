"""The stages of an attempt, one file each: what is prepared, what is started, and what the receipt says of it."""
