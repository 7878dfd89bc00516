"""Linear algebra with NumPy's own OpenBLAS: program.py KIND THREADS."""

import sys

import numpy as np
import threadpoolctl

SIZE = 500

kind, threads = sys.argv[1], int(sys.argv[2])
threadpoolctl.threadpool_limits(threads)
random = np.random.default_rng(1)
matrix = random.normal(size=(SIZE, SIZE))
positive = matrix @ matrix.T + SIZE * np.eye(SIZE)
for _ in range(100):
    if kind == "product":
        matrix = matrix @ positive / SIZE**2
    elif kind == "cholesky":
        np.linalg.cholesky(positive)
    else:
        np.linalg.solve(positive, matrix)
