"""Programs: started in a sandbox, watched, ended with all that they started."""
