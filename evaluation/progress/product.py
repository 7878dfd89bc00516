"""Products of matrices with NumPy: ``product.py PRODUCTS FILE``. The first eight bytes of FILE count them.

FILE is shared memory, so that the program reads and writes nothing.
"""

import mmap
import sys
from pathlib import Path

import numpy as np

SIZE = 500

products, file = int(sys.argv[1]), Path(sys.argv[2])
file.write_bytes(bytes(8))
with file.open("r+b") as opened:
    count = memoryview(mmap.mmap(opened.fileno(), 8)).cast("Q")
left = np.random.default_rng(1).random((SIZE, SIZE))
right = left.T.copy()
result = np.empty_like(left)
for _ in range(products):
    np.matmul(left, right, out=result)
    count[0] += 1
