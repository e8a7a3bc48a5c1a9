"""Two ways to see which files a program tree opens: the kernel's notices (fanotify), and each call (strace)."""
