"""What the errors of databases mean: whether the database could not do its work, or finds the work wrong.

The names of PEP 249 are read from whatever driver, and from SQLAlchemy, Django and peewee, which repeat them; drivers
with names of their own have a table. A database error is retried with a wait, never at once: it is of the kind CALL.
"""

from __future__ import annotations

from ._chain import attribute
from ._finding import PHASE, Finding, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._finding import Row, Table

_failed = plain("database_failed", sure=PHASE)
_refused = plain("database_refused", sure=PHASE)

# PEP 249. OperationalError is for "the database's operation and not necessarily under the control of the programmer";
# the second four are the statement's or its data's own fault, and the same statement fails again.
PEP249: Table = {
    "DatabaseError": _failed,
    "InterfaceError": _failed,
    "InternalError": _failed,
    "OperationalError": _failed,
    "DataError": _refused,
    "IntegrityError": _refused,
    "NotSupportedError": _refused,
    "ProgrammingError": _refused,
}

# Classes of SQLSTATE that name the statement, its data, or the caller's rights.
REFUSED_STATES = {"0A", "21", "22", "23", "28", "2B", "2F", "3D", "3F", "42", "44"}


def by_state(exc: Any) -> Finding | None:
    """asyncpg names its classes after SQLSTATE's conditions, and each carries its code."""
    state = attribute(exc, "sqlstate")
    return (_refused if isinstance(state, str) and state[:2] in REFUSED_STATES else _failed)(exc)


SQLALCHEMY: Table = {
    **PEP249,
    "DBAPIError": _failed,
    "DisconnectionError": _failed,
    "TimeoutError": _failed,
    "StaleDataError": _failed,
    # The rest is about how the program uses SQLAlchemy.
    "SQLAlchemyError": _refused,
}

REDIS: Table = {
    "BusyLoadingError": _failed,
    "ReadOnlyError": _failed,
    "OutOfMemoryError": _failed,
    "ClusterDownError": _failed,
    "TryAgainError": _failed,
    "WatchError": _failed,
    "LockError": _failed,
    "AuthenticationError": _refused,
    "AuthorizationError": _refused,
    "DataError": _refused,
    "ResponseError": _refused,
    "RedisError": _failed,
    "RedisClusterException": _failed,
}

MONGO: Table = {
    "DuplicateKeyError": _refused,
    "ConfigurationError": _refused,
    "InvalidOperation": _refused,
    "InvalidName": _refused,
    "CollectionInvalid": _refused,
    "DocumentTooLarge": _refused,
    "PyMongoError": _failed,
}

DATABASES: dict[str, Table] = {
    "asyncpg": {**PEP249, "PostgresError": by_state, "DataError": _refused},
    "sqlalchemy": SQLALCHEMY,
    "redis": REDIS,
    "pymongo": MONGO,
    "bson": {"BSONError": _refused},
}


def of_pep249(cls: type) -> Row | None:
    """The row of a driver's class, known by its name and by one of the two parents that PEP 249 demands."""
    parents = {parent.__name__ for parent in cls.__mro__}
    if not parents & {"DatabaseError", "InterfaceError"}:
        return None
    return PEP249.get(cls.__name__)
