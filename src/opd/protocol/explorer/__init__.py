"""What an explorer is given inside its sandbox: commands to measure, to look at the time, and to hand in.

bench.py       everything that stands ready while it works
client.py      the commands themselves: a small program that asks the desk, one copy under each name (tools.py)
desk.py        who answers, outside of the sandbox, in the orchestrator's process
proxy.py       what `fast-eval` does: a checkpoint taken over (taking.py), evaluated by the install, sealed
snapshot.py    the source as it stood then; claims.py: what the explorer's own files say made the checkpoint; both
               are read beside the measurement (aside.py)
outlook.py     what still fits into the time, and what difference that could find (designs.py)
notes.py       what `note` does
handing_in.py  what `submit` and `no-candidate` do
record.py      every command of the explorer's shells, written down where it can't be changed
ledger.py      each second: what was left of the time, what ran, how busy the device was (device.py)
remains.py     what its runs left behind
adapters.py    how each of harnesses/ is started; endpoint.py relays one to its model
trajectory.py  what its harness recorded, as ATIF (native.py, draft.py)
"""
