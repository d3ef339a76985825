"""The real errors of database drivers: of SQLite, of servers that are not there, and classes of those that are."""

from __future__ import annotations

import asyncio
import sqlite3

import asyncpg
import psycopg
import pymongo
import pymongo.errors
import pymysql
import pytest
import redis
import redis.asyncio
import sqlalchemy
import sqlalchemy.orm

import steadycall

from .faults import Expected, check, raised, serving

FAILED = Expected("call", True)
REFUSED = Expected("permanent", False, reason="rejects the statement")


def port_of(url):
    return int(url.rpartition(":")[2])


def locked(path):
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("create table if not exists t (id integer primary key)")
    holder.execute("begin exclusive")
    try:
        sqlite3.connect(path, timeout=0).execute("insert into t values (1)")
    finally:
        holder.close()


def twice(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table u (id integer primary key)")
        connection.execute("insert into u values (1)")
        connection.execute("insert into u values (1)")


def wrong_parameters(path):
    sqlite3.connect(path).execute("select ?", ())


def mapped(work):
    """The same through SQLAlchemy, which wraps the driver's error."""

    def through(path):
        with sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0}).begin() as connection:
            work(lambda statement: connection.execute(sqlalchemy.text(statement)))

    return through


def mapped_twice(execute):
    execute("create table v (id integer primary key)")
    execute("insert into v values (1)")
    execute("insert into v values (1)")


def mapped_locked(path):
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("create table w (id integer primary key)")
    holder.execute("begin exclusive")
    try:
        mapped(lambda execute: execute("insert into w values (1)"))(path)
    finally:
        holder.close()


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (locked, FAILED),
        (mapped_locked, FAILED),
        (twice, REFUSED),
        (mapped(mapped_twice), REFUSED),
        (wrong_parameters, REFUSED),
    ],
)
def test_a_locked_database_is_waited_for_and_a_wrong_statement_is_not(tmp_path, work, expected):
    check(raised(work, str(tmp_path / "db")), expected)


def test_a_database_error_is_a_call_failure_and_so_never_retried_at_once(tmp_path):
    failure = steadycall.classify_exception(raised(locked, str(tmp_path / "db")))
    assert failure.kind is steadycall.FailureKind.CALL
    assert failure.kind is not steadycall.FailureKind.VALIDATION
    assert failure.reason.startswith("The database")


def with_mysql(url):
    pymysql.connect(host="127.0.0.1", port=port_of(url))


def with_psycopg(url):
    psycopg.connect(f"host=127.0.0.1 port={port_of(url)} user=u dbname=d")


async def with_asyncpg(url):
    await asyncpg.connect(host="127.0.0.1", port=port_of(url), user="u", database="d", timeout=2)


def with_redis(url):
    redis.Redis(port=port_of(url), retry=None).ping()


async def with_async_redis(url):
    async with redis.asyncio.Redis(port=port_of(url), retry=None) as client:
        await client.ping()


def with_mongo(url):
    with pymongo.MongoClient("127.0.0.1", port_of(url), serverSelectionTimeoutMS=50) as client:
        client.admin.command("ping")


@pytest.mark.parametrize("driver", [with_mysql, with_psycopg, with_asyncpg, with_redis, with_async_redis, with_mongo])
def test_a_database_that_is_not_there_is_waited_for(driver):
    with serving(None) as url:
        check(raised(driver, url), FAILED)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (asyncpg.exceptions.UniqueViolationError("x"), REFUSED),
        (asyncpg.exceptions.UndefinedTableError("x"), REFUSED),
        (asyncpg.exceptions.DeadlockDetectedError("x"), FAILED),
        (asyncpg.exceptions.TooManyConnectionsError("x"), FAILED),
        (asyncpg.exceptions.DataError("x"), REFUSED),
        (psycopg.errors.UniqueViolation("x"), REFUSED),
        (psycopg.errors.UndefinedTable("x"), REFUSED),
        (psycopg.errors.SerializationFailure("x"), FAILED),
        (psycopg.errors.AdminShutdown("x"), FAILED),
        (psycopg.InterfaceError("the connection is closed"), FAILED),
        (pymysql.err.ProgrammingError(1146, "x"), REFUSED),
        (redis.exceptions.ResponseError("x"), REFUSED),
        (redis.exceptions.BusyLoadingError("x"), FAILED),
        (redis.exceptions.ReadOnlyError("x"), FAILED),
        (redis.exceptions.AuthenticationError("x"), REFUSED),
        (pymongo.errors.DuplicateKeyError("x"), REFUSED),
        (pymongo.errors.NotPrimaryError("x"), FAILED),
        (sqlalchemy.exc.TimeoutError("x"), FAILED),
        (sqlalchemy.exc.NoResultFound("x"), REFUSED),
        (sqlalchemy.orm.exc.StaleDataError("x"), FAILED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_drivers_class_says_whether_the_statement_is_at_fault(error, expected):
    check(error, expected)


def test_a_driver_without_a_table_is_known_by_the_names_of_pep_249():
    class Error(Exception):
        pass

    class DatabaseError(Error):
        pass

    class OperationalError(DatabaseError):
        pass

    class IntegrityError(DatabaseError):
        pass

    class Deadlock(OperationalError):
        pass

    check(Deadlock(), FAILED)
    check(IntegrityError(), REFUSED)
    assert steadycall.classify_exception(Error()).reason == "The function failed."


def test_an_asyncio_timeout_around_a_database_is_a_call_failure():
    async def slow(_):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)

    check(raised(slow, ""), FAILED)
