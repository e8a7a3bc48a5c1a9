"""Terminal boards, pictures and pages. Reads files and computes no score; imports `records` alone."""
