"""A checkpoint, held against the model that training began with, before any of it is loaded."""
