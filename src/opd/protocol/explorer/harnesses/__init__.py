"""One file a harness that explores; the file's name, with - for _, is the harness's name."""
