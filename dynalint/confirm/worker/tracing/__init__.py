"""`dynalint trace` inside the user's own processes: watch calls, and confirm each kind of call in a fork.

    agent        joins a process: waits for torch, then installs the probe in it
    instrument   installs the probe in torch's own functions without changing tracebacks
    probe        sees the outermost calls, and decides which ones to confirm
    signature    distinguishes kinds of calls
    snapshot     a fork of the process when a call is made, and the code that runs in it
    session      the state shared by all processes of a command: settings, budget, claims, notes

Calls are confirmed in a fork because the alternatives do not work. Compiling in the process itself resets and fills
Dynamo's caches, adds to its metrics and imports half of torch, all of which a program can observe. Sending a copy to a
worker requires pickling, which fails for objects defined in tests and scripts. A fork has the real module and arguments
at no cost, and cannot affect the program. It waits for its turn in the background, without access to the program's
files, so that even a program that crashes or calls `os._exit` right after the call leaves evidence.
"""
