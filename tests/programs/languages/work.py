"""work SECONDS: two threads that hash, without the interpreter's lock; each hash is a heartbeat."""

import hashlib
import os
import sys
import threading
import time

import pinfold

END = time.monotonic() + float(sys.argv[1])


def work() -> None:
    """Hash until the time is over."""
    block = bytes(1 << 20)
    while time.monotonic() < END:
        hashlib.sha256(block).digest()
        pinfold.heartbeat()


print("cpus", len(os.sched_getaffinity(0)), flush=True)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
