"""The server behind `opd view`: run folders as pages, on this machine alone and for reading alone."""
