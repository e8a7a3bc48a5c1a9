"""From prompts to checkpoints. The editable room: a submission may change it.

    ahead/        before step one: what a run needs and will see, and whether it fits
    prompts/      the rows of a file, and which of them a step sees
    update/       from scored rollouts to moved weights
    saved/        what stays on the disk, and how a run goes on from it
    objectives/   what is learned, a file each
    ranks/        a run of several processes
    corpus/       what is in training data
    sinks/        where a run is shown, a file each

At the top stands what these are put together by: the recipe (`recipe.py`), its parts (`parts.py`), the run (`run.py`)
and its loop (`loop.py`).
"""
