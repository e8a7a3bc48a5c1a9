"""Exchange with Harbor, and with whoever reads what it reads.

job.py           an attempt as a job folder: what `harbor view` and its other readers open
trial.py         the one trial in it: config, lock and result
facts.py         what an attempt has come to, gathered for that
attestations.py  a statement per receipt, in-toto's form, of a formal try with its provenance
crate.py         ro-crate-metadata.json: the same as a Process Run Crate
secrets.py       known secrets, looked for in every byte before anything is written
environment.py   a place for Harbor's own trials to run in: the sandbox ladder, without a container engine
"""
