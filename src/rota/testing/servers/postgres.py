"""A private PostgreSQL server with password authentication.

    with PostgresServer() as server:
        url = server.create_database()

Writes are durable (fsync is on) unless told otherwise, since durability is what many tests are about.
PostgreSQL refuses to run as root; a root user's server runs as `postgres` or `nobody`. The databases that
`create_database` makes sort text as a language does, not by code point, where the build can: code that
forgets to ask for byte order fails here.
"""

import contextlib
import fcntl
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final, LiteralString

import psycopg
from psycopg import sql

from rota.testing.servers import binaries
from rota.testing.servers.processes import Server, ServerError, environment, free_port

_USER: Final = "rota"


class PostgresServer(Server):
    """One private PostgreSQL."""

    #: "Fast shutdown": open transactions are rolled back, clients are disconnected, the data is checkpointed.
    stop_signal = signal.SIGINT

    def __init__(self, *, fsync: bool = True, template: Path | None = None, address: str = "") -> None:
        """`template`: a folder that keeps a new cluster for the servers to come; it is made if missing.

        `address`: another one of this machine, by which others reach it.
        """
        programs = binaries.postgres_folder()
        if programs is None:
            raise ServerError("PostgreSQL's server programs (initdb, postgres) are not installed")
        self._programs = programs
        self._fsync = fsync
        self._address = address
        self._data = Path()
        super().__init__("pg", account=_account())
        self._data = self.folder / "data"
        try:
            self._password = self._make_cluster() if template is None else self._copy_cluster(template)
            if address:
                with (self._data / "pg_hba.conf").open("a", encoding="utf-8") as access:
                    access.write("host all all samenet scram-sha-256\n")
        except BaseException:
            self.close()
            raise

    def choose_ports(self) -> None:
        """See `Server.choose_ports`."""
        self.port = free_port()

    @property
    def url(self) -> str:
        """The maintenance database, as a superuser."""
        return self.url_of("postgres")

    def url_of(self, database: str, *, password: str | None = None) -> str:
        """The URL of a database, with the right password unless another is given."""
        return (
            f"postgresql://{_USER}:{password or self._password}@{self._address or '127.0.0.1'}:{self.port}/{database}"
        )

    def command(self) -> list[str]:
        """See `Server.command`."""
        settings = {
            "listen_addresses": ",".join(filter(None, ("127.0.0.1", self._address))),
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if self._fsync else "off",
            "max_connections": "200",
            "shared_buffers": "64MB",
            # Files in the data folder, not in /dev/shm: they go when the folder goes.
            "dynamic_shared_memory_type": "mmap",
            # A client that connects during shutdown and then says nothing holds the server up for this long (60 s by
            # default): PostgreSQL does not signal the child that is there to refuse it.
            "authentication_timeout": "5s",
            "logging_collector": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *options]

    def answers(self) -> bool:
        """Whether the server accepts connections, by the file through which it tells pg_ctl."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            # After a kill -9 the file of the former process is still there.
            return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"
        return False

    def create_database(self, name: str = "") -> str:
        """Make an empty database, by default under a new name, and return its URL."""
        name = name or f"test_{secrets.token_hex(6)}"
        create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        with self._connect() as connection:
            if connection.execute("SELECT 1 FROM pg_collation WHERE collprovider = 'i' LIMIT 1").fetchone():
                create += sql.SQL(" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
            connection.execute(create)
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """Remove a database that `create_database` made, whoever is still connected to it."""
        name = sql.Identifier(url.rpartition("/")[2])
        with self._connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def disconnect_clients(self) -> int:
        """Cut the connections of all clients while the server goes on; returns how many there were."""
        others: LiteralString = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        with self._connect() as connection:
            return len(connection.execute(others).fetchall())

    def close(self) -> None:
        """See `Server.close`."""
        try:
            self.stop()
            self._remove_shared_memory()
        finally:
            super().close()

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url, autocommit=True)

    def _make_cluster(self) -> str:
        password = secrets.token_hex(12)
        secret = self.folder / "password"
        secret.write_text(password, encoding="utf-8")
        self.own(secret)
        options = ["--no-sync", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256"]
        program = [
            str(self._programs / "initdb"),
            "-D",
            str(self._data),
            "-U",
            _USER,
            f"--pwfile={secret}",
            *options,
        ]
        account = self._account
        done = subprocess.run(
            program,
            cwd=self.folder,
            env=environment(),
            user=None if account is None else account.pw_uid,
            group=None if account is None else account.pw_gid,
            extra_groups=None if account is None else [],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ServerError(f"initdb failed:\n{done.stderr}")
        return password

    def _copy_cluster(self, template: Path) -> str:
        template.parent.mkdir(parents=True, exist_ok=True)
        with template.with_name(f"{template.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not template.exists():
                password = self._make_cluster()
                unfinished = template.with_name(f"{template.name}.unfinished")
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
                _copy(self._data, unfinished / "data")
                (unfinished / "password").write_text(password, encoding="utf-8")
                unfinished.rename(template)
                return password
        _copy(template / "data", self._data)
        return (template / "password").read_text(encoding="utf-8")

    def _remove_shared_memory(self) -> None:
        """Remove the System V memory that a killed server leaves behind; its pid file tells which."""
        program = shutil.which("ipcrm")
        with contextlib.suppress(FileNotFoundError, IndexError):
            lines = (self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            identifier = lines[6].split()[1]
            if program is not None:
                subprocess.run([program, "-m", identifier], check=False, capture_output=True)


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerError("PostgreSQL does not run as root, and this machine has no user postgres or nobody")


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with its owners and modes, which shutil does not keep."""
    subprocess.run(["cp", "-Rp", str(source), str(target)], check=True)  # noqa: S607  # every POSIX system has it
