"""Searching near neighbours with FAISS: program.py KIND THREADS."""

import sys

import faiss
import numpy as np

kind, threads = sys.argv[1], int(sys.argv[2])
faiss.omp_set_num_threads(threads)
random = np.random.default_rng(1)
vectors = random.normal(size=(20_000, 64)).astype(np.float32)
index = faiss.IndexFlatL2(64) if kind == "flat" else faiss.IndexHNSWFlat(64, 16)
index.add(vectors)
for _ in range(100):
    index.search(vectors[:400], 10)
