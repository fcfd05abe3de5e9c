"""`dynalint trace` inside the user's own processes: watch calls, and confirm each kind of call in a fork.

    agent        joins a process: waits for torch, then installs the probe in it
    instrument   installs the probe in torch's own functions without changing tracebacks
    probe        sees outermost calls, and decides which ones to confirm
    signature    distinguishes kinds of calls
    snapshot     a fork of the process at the moment of a call, and the code that runs in it
    session      the state shared by all processes of one command: settings, budget, claims, notes

Why a fork, rather than compiling in the process itself or sending a copy to a worker: compiling resets and fills
Dynamo's caches, adds to its metrics and imports half of torch, all of which a program can observe; pickling fails for
objects defined in tests and scripts. A fork has the real module and arguments at no cost, and cannot affect the
program. It waits for its turn in the background, without access to the program's files, so that even a program that
crashes or calls `os._exit` right after the call leaves evidence.
"""
