"""What runs on the inner side: the first process of a sandbox, and what it asks of the kernel.

The standard library alone, and imports relative to this folder: a sandbox sees the folder, and of the package nothing
else. `python -I -S -B -c BOOT`, of `opd.protocol.sandbox.launch`, starts it.
"""
