"""Boosted trees with LightGBM: program.py THREADS."""

import sys

import lightgbm
import numpy as np

threads = int(sys.argv[1])
random = np.random.default_rng(1)
rows = random.normal(size=(40_000, 20))
data = lightgbm.Dataset(rows, (rows[:, 0] * rows[:, 1] > 0).astype(float))
lightgbm.train({"objective": "binary", "num_threads": threads, "force_row_wise": True, "verbose": -1}, data, 500)
