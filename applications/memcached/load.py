"""Asks memcached for values, and sets them: load.py PORT. It ends after TIMES rounds of each client."""

import random
import socket
import sys
import threading

CLIENTS, KEYS, TIMES, BATCH = 12, 3000, 20_000, 20


def client(number: int) -> None:
    """Send batches of requests, and read the answers."""
    chosen = random.Random(number)
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        answers = connection.makefile("rb")
        for _ in range(TIMES):
            keys = [chosen.randrange(KEYS) for _ in range(BATCH)]
            value = b"x" * chosen.randrange(50, 400)
            sets = [b"set k%d 0 0 %d\r\n%s\r\n" % (key, len(value), value) for key in keys[::4]]
            connection.sendall(b"".join(sets) + b"get " + b" ".join(b"k%d" % key for key in keys) + b"\r\n")
            while answers.readline() != b"END\r\n":
                pass


for number in range(CLIENTS):
    threading.Thread(target=client, args=(number,)).start()
