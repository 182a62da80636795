"""A PostgreSQL database for each test.

    lookaside pg run --migrations migrations -- pytest

starts a server, fills the database of DATABASE_URL with the migrations, and removes both at the end. That database is
the template here: nobody connects to it, and each test gets a copy.
"""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict


class Databases:
    """Copies of a template. A thread makes the next one and drops the last one while a test runs."""

    def __init__(self, url, template):
        # A database that is copied must have no sessions, so this one is to another.
        self.session = psycopg.connect(url, dbname="postgres", autocommit=True)
        self.template = template
        # Several processes (pytest-xdist) share the server.
        self.names = (f"test_{os.getpid()}_{number}" for number in itertools.count())
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.next = self.thread.submit(self.create)

    def create(self):
        name = next(self.names)
        # Copies files, which is the cheapest way for a small template (PostgreSQL 15 and newer).
        self.session.execute(f'create database "{name}" template "{self.template}" strategy file_copy')
        return name

    def take(self):
        name = self.next.result()
        self.next = self.thread.submit(self.create)
        return name

    def drop(self, name):
        self.thread.submit(self.session.execute, f'drop database "{name}" with (force)')

    def close(self):
        self.thread.shutdown()
        self.session.close()


@pytest.fixture(scope="session")
def databases():
    url = os.environ.get("DATABASE_URL")
    if not url:
        pytest.exit("DATABASE_URL is not set: lookaside pg run --migrations migrations -- pytest", returncode=2)
    databases = Databases(url, conninfo_to_dict(url)["dbname"])
    yield databases
    databases.close()


@pytest.fixture
def db(databases):
    """A connection to a database that no other test sees, dropped after the test."""
    name = databases.take()
    with psycopg.connect(os.environ["DATABASE_URL"], dbname=name) as connection:
        yield connection
    databases.drop(name)
