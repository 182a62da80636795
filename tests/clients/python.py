"""Opens the server of `lookaside pg run` with the client that the first argument names."""

import asyncio
import os
import subprocess
import sys

URL = os.environ["DATABASE_URL"]
QUESTION = "select %s::int + 1, %s::text || '!', current_database()"
PARAMETERS = (41, "ä")
EXPECTED = (42, "ä!", os.environ["PGDATABASE"])


def url_as(form):
    program = [os.environ["LOOKASIDE"], "pg", "url", "--format", form]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout.strip()


def check(found):
    assert tuple(found) == EXPECTED, found


def psycopg2():
    import psycopg2

    for where in (URL, ""):
        connection = psycopg2.connect(where)
        with connection.cursor() as cursor:
            cursor.execute(QUESTION, PARAMETERS)
            check(cursor.fetchone())
        connection.close()
    return psycopg2.__version__


def psycopg():
    import psycopg

    for where in (URL, ""):
        with psycopg.connect(where) as connection:
            check(connection.execute(QUESTION, PARAMETERS).fetchone())
    return psycopg.__version__


def asyncpg():
    import asyncpg

    async def ask():
        for where in (URL, None):
            connection = await asyncpg.connect(where)
            question = "select $1::int + 1, $2::text || '!', current_database()"
            check(await connection.fetchrow(question, *PARAMETERS))
            await connection.close()

    asyncio.run(ask())
    return asyncpg.__version__


def sqlalchemy():
    import sqlalchemy
    from sqlalchemy.ext.asyncio import create_async_engine

    question = sqlalchemy.text(
        "select cast(:n as int) + 1, cast(:t as text) || '!', current_database()"
    )
    parameters = dict(zip("nt", PARAMETERS))
    # The first is what SQLAlchemy makes of the URL as it is: psycopg2 up to 2.0, psycopg from 2.1 on.
    named = [URL.replace("postgresql", f"postgresql+{driver}", 1) for driver in ("psycopg2", "psycopg")]
    for where in [URL, *named]:
        engine = sqlalchemy.create_engine(where)
        with engine.connect() as connection:
            check(connection.execute(question, parameters).one())
        engine.dispose()

    async def ask():
        engine = create_async_engine(url_as("sqlalchemy-asyncpg"))
        async with engine.connect() as connection:
            check((await connection.execute(question, parameters)).one())
        await engine.dispose()

    asyncio.run(ask())
    return sqlalchemy.__version__


client = sys.argv[1]
print("ok", client, globals()[client]())
