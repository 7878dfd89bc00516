"""Starts pinfold as a launcher does that prepares the program's process itself: launcher PINFOLD ARGUMENTS -- COMMAND.

The child makes the changes that pinfold asks for, prints their names, and executes the command.
"""

import os
import socket
import sys


def changes(theirs: socket.socket) -> None:
    """Wait for pinfold, and change the environment as it says."""
    message = b""
    while not message.endswith(b"\0.\0") and message != b".\0":
        more = theirs.recv(4096)
        if not more:
            os._exit(1)
        message += more
    names = []
    for change in message.decode().split("\0"):
        if change.startswith("+"):
            name, _, value = change[1:].partition("=")
            os.environ[name] = value
            names.append(name)
    print("changed:", *sorted(names), flush=True)


ours, theirs = socket.socketpair()
child = os.fork()
if child == 0:
    ours.close()
    changes(theirs)
    command = sys.argv[sys.argv.index("--") + 1 :]
    try:
        os.execvp(command[0], command)
    except OSError:
        os._exit(44)
theirs.close()
os.set_inheritable(ours.fileno(), True)
variables = os.environ | {"PINFOLD_WAITING_CHILD": f"{child}:{ours.fileno()}"}
os.execve(sys.argv[1], sys.argv[1:], variables)
