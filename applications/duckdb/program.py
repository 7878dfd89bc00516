"""Queries of DuckDB: program.py KIND THREADS."""

import sys

import duckdb

QUERIES = {
    "group": "select k, sum(v), count(*) from t group by k order by 2 desc limit 10",
    "sort": "select sum(r) from (select v + row_number() over (order by v, k) as r from t)",
    "join": "select count(*) from t a join t b on a.k = b.w where a.v < b.v",
}

kind, threads = sys.argv[1], int(sys.argv[2])
database = duckdb.connect(config={"threads": threads})
database.execute(
    "create table t as select hash(i) % 20000 as k, hash(i + 1) % 1000000 as v, hash(i + 2) % 400000 as w "
    "from range(400000) r(i)"
)
for _ in range(30):
    database.execute(QUERIES[kind]).fetchall()
