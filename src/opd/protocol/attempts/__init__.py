"""An attempt as a folder: tries and their receipts, the log, the lease, and what all of it comes to."""
