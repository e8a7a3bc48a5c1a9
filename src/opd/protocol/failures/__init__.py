"""Whose failure it was that a formal try did not complete, and the witnesses."""
