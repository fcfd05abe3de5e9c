"""`dynalint trace` inside the user's own processes: watch calls, and confirm each kind of call on a snapshot.

    agent        takes part in a process: waits for torch, then puts the probe into it
    instrument   how the probe gets into torch's own functions without a trace in tracebacks
    probe        sees outermost calls, and decides which are worth a snapshot
    signature    what tells one kind of call from another
    snapshot     a fork of the process at the moment of a call, and what is run in it
    session      what all processes of one command share: settings, budget, claims, notes

Why a fork, and neither a compile in the process itself nor a copy sent to a worker: compiling resets and fills Dynamo's
caches, counts in its metrics and imports half of torch, all of which a program can see; pickling fails on what tests
and scripts define. A fork has the real module and arguments at no cost, and whatever happens in it, the program goes
on as it was. It waits for its turn in the background, closed off from the program's files, so that even a program that
crashes or calls `os._exit` right after the call leaves its evidence.
"""
