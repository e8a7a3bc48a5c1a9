"""From a task to evaluated checkpoints. Starts programs and reads files; no tensor is in here.

packages/      tasks: found, explained, looked over, rendered for Harbor
attempts/      the folder of an attempt: tries, receipts, log, lease, and what it comes to
stages/        explore → submission → formal → validation → final, one file each
explorer/      what an explorer is given, and what is written down of it
patches/       the workspace, and the submission derived from it
sandbox/       what a program sees; the ladder of sandboxes; probes
supervision/   programs watched, and ended with all that they started
failures/      whose failure it was
checkpoints/   which count, and whether they are what they say
openings/      which files a program really opened
harbor/        exchange: a job, trajectories, an environment
"""
