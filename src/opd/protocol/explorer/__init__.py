"""What an explorer is given inside its sandbox: commands to measure, to look at the time, and to hand in.

client.py    the commands themselves: a small program that asks the desk, one copy under each name
desk.py      who answers, outside of the sandbox, in the orchestrator's process
proxy.py     what `fast-eval` does: a checkpoint taken over, checked, evaluated by the install, sealed
handing_in.py  what `submit` and `no-candidate` do
record.py    every command of the explorer's shells, written down where it can't be changed
device.py    who may use the device, and how busy it was, second by second
adapters.py  how each harness is started, and where its own record is
"""
