"""A web server and databases, under their own load generators."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from pinfold.evaluation.progress import inputs
from pinfold.evaluation.progress.figures import Asked, Figure, Written, grown
from pinfold.evaluation.progress.program import Program, accepts, as_user, free_port, path_of
from pinfold.evaluation.progress.quota import Group

PAGE_SIZE = 96 << 10
LONG = 600
"""Seconds for which a load generator works unless it is ended."""

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""Folders of nginx that would be outside of its own."""

ROWS = 20_000
ROWS_OF_A_CHANGE = 400
CHANGES = 40_000


class Server(Program):
    """A server at a port. It does not end by itself."""

    port: int = 0

    @property
    def ends(self) -> bool:
        """No server ends after an amount of work."""
        return False

    def clear(self, folder: Path) -> None:
        """Take a port of its own for each run: the one of an earlier run may wait for its last connections."""
        del folder
        self.port = free_port()

    def is_ready(self, folder: Path) -> bool:
        """Return whether the server takes connections."""
        del folder
        return accepts(self.port)


class WebServer(Server):
    """nginx, which compresses a page for each request."""

    name = "nginx"
    kind = "web server"
    figure_is = "requests, by `stub_status`"
    needs = ("nginx", "wrk")

    def prepare(self, folder: Path) -> None:
        """Write the page."""
        inputs.text(folder / "page.txt", PAGE_SIZE)

    def clear(self, folder: Path) -> None:
        """Write the configuration with a port."""
        super().clear(folder)
        (folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/errors.log; worker_processes 2;\n"
            "events { worker_connections 256; }\n"
            "http { access_log off; types { text/plain txt; } gzip on; gzip_types text/plain;\n"
            "keepalive_requests 1000000;"
            + "".join(f" {name}_temp_path {folder}/{name};" for name in TEMPORARY)
            + f"\nserver {{ listen 127.0.0.1:{self.port}; root {folder}; location /status {{ stub_status; }} }} }}\n"
        )

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        del amount
        return [path_of("nginx"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]

    def load(self, folder: Path) -> Sequence[str]:
        """Return wrk's command line."""
        del folder
        return wrk(self.port, "/page.txt", "-H", "Accept-Encoding: gzip")

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of requests."""
        del folder, group
        request = b"GET /status HTTP/1.0\r\n\r\n"
        return Asked(self.port, request, r"handled requests\s+\d+ \d+ (?P<value>\d+) ")


def wrk(port: int, path: str, *options: str) -> Sequence[str]:
    """Return the command line of wrk, which sends the next request on a connection after the answer to the last."""
    words = ["-t", "1", "-c", "16", "-d", f"{LONG}s", *options, f"http://127.0.0.1:{port}{path}"]
    return [path_of("wrk"), *words]


class Redis(Server):
    """Redis under its own benchmark."""

    name = "Redis"
    kind = "database"
    figure_is = "commands, by `INFO`"
    needs = ("redis-server", "redis-benchmark")

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        del amount
        options = ["--port", str(self.port), "--save", "", "--appendonly", "no", "--dir", str(folder)]
        return [path_of("redis-server"), *options]

    def load(self, folder: Path) -> Sequence[str]:
        """Return the benchmark's command line."""
        del folder
        options = ["-c", "20", "-P", "8", "-d", "256", "-n", "2000000000", "-r", "10000", "-t", "mset", "-q"]
        return [path_of("redis-benchmark"), "-p", str(self.port), *options]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of commands."""
        del folder, group
        pattern = r"(?s)server_time_usec:(?P<microseconds>\d+)\r.*total_commands_processed:(?P<value>\d+)\r"
        return Asked(self.port, b"INFO\r\n", pattern)


class PostgreSQL(Server):
    """PostgreSQL under pgbench."""

    name = "PostgreSQL"
    kind = "database"
    figure_is = "transactions, by pgbench's log"
    needs = ("postgres", "initdb", "psql", "pgbench")
    user = "postgres"

    def prepare(self, folder: Path) -> None:
        """Make a database."""
        self._as_user(folder, "initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-D", str(folder / "data"))
        self.port = free_port()
        words = [*as_user(self.user), *self.command(folder)]
        with subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL) as server:
            while not self._answers("select 1"):
                if server.poll() is not None:
                    raise OSError(f"PostgreSQL has ended with status {server.returncode}")
            self._as_user(folder, "pgbench", *self._options(), "-i", "-q")
            server.terminate()

    def clear(self, folder: Path) -> None:
        """Remove pgbench's log."""
        super().clear(folder)
        for log in folder.glob("log.*"):
            log.unlink()

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        del amount
        options = ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        return [path_of("postgres"), "-D", str(folder / "data"), *options, "-c", "fsync=off"]

    def is_ready(self, folder: Path) -> bool:
        """Return whether the server has read its tables: the first transactions would read a page each."""
        del folder
        return self._answers("select sum(abalance) from pgbench_accounts")

    def load(self, folder: Path) -> Sequence[str]:
        """Return pgbench's command line."""
        log = ["-l", "--log-prefix", str(folder / "log")]
        return [path_of("pgbench"), *self._options(), "-n", "-S", "-c", "8", "-T", str(LONG), *log]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of transactions."""
        del group

        def ended(line: str) -> float:
            # client, transaction, time taken, script, and the time of day in seconds and microseconds
            words = line.split()
            return int(words[4]) + int(words[5]) / 1e6

        return Written(folder, "log.*", lambda line: 1.0, ended)

    def _answers(self, question: str) -> bool:
        words = [path_of("psql"), *self._options(), "-c", question]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def _options(self) -> Sequence[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "postgres"]

    def _as_user(self, folder: Path, command: str, *words: str) -> None:
        options = [*as_user(self.user), path_of(command), *words]
        subprocess.run(options, cwd=folder, check=True, capture_output=True)


class Tables(Program):
    """SQLite, which changes a table again and again."""

    name = "SQLite"
    kind = "database"
    figure_is = "changed rows, by `total_changes()`"
    needs = ("sqlite3",)

    def prepare(self, folder: Path) -> None:
        """Write the statements."""
        self._statements(folder, None)

    def clear(self, folder: Path) -> None:
        """Remove the database of an earlier run."""
        for file in folder.glob("database*"):
            file.unlink()

    def command(self, folder: Path, amount: int | None = None) -> Sequence[str]:
        """Return the command line."""
        return [path_of("sqlite3"), "-init", str(self._statements(folder, amount)), str(folder / "database"), ".quit"]

    def figure(self, folder: Path, group: Group) -> Figure:
        """Return the number of rows."""
        del group
        return Written(folder, "output", grown(r"^(\d+)$"))

    def _statements(self, folder: Path, amount: int | None) -> Path:
        times = CHANGES if amount is None else max(amount // ROWS_OF_A_CHANGE, 1)
        file = folder / ("statements" if amount is None else "few_statements")
        file.write_text(
            "pragma journal_mode = wal; pragma synchronous = off;\ncreate table t (k integer primary key, v text);\n"
            f"with recursive n(k) as (select 1 union all select k + 1 from n where k < {ROWS}) "
            "insert into t select k, hex(randomblob(20)) from n;\n"
            + f"update t set v = hex(randomblob(20)) where k % {ROWS // ROWS_OF_A_CHANGE} = 0;\n"
            "select total_changes();\n" * times
        )
        return file


SERVERS: tuple[Program, ...] = (WebServer(), Redis(), PostgreSQL(), Tables())
