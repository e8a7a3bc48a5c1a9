"""What a program is given to see and to do: a view, and the rungs of a ladder that enforce it, best first."""
