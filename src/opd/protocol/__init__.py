"""From a task to evaluated checkpoints, an audit and a report. Starts programs and reads files; no tensor is in here.

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
contamination/ whether the final's questions stand anywhere in it
audit/         what the evidence holds, by checks that show that they would find it
report/        all of it in words, a source for every number
cases/         many attempts side by side
harbor/        exchange: a job, trajectories, an environment
"""
