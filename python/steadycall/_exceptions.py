"""``classify_exception``: an exception of whatever library in, the judgement of the core out."""

from __future__ import annotations

from ._chain import is_cancellation, is_control_flow, walk
from ._errors import CallError, ConfigError
from ._finding import Finding, plain
from ._known_builtins import STANDARD, programming, system_refused
from ._known_databases import DATABASES, of_pep249
from ._known_http import CLIENTS
from ._known_ours import OURS
from ._known_sdks import SDKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._finding import Row, Table
    from ._records import Failure


def classify_exception(exc: BaseException) -> Failure:
    """Judge an exception as ``call`` judges its own failures: what kind it is, and whether another attempt may help.

    It looks at the exception and at all that stands behind it: ``__cause__``, ``__context__`` unless suppressed, the
    members of exception groups, and the last attempt of tenacity's ``RetryError``; 20 deep at most. An HTTP answer
    found there, in an error of an SDK or an HTTP client, is judged by status, headers and body, as by ``classify``.

    Of several findings the first of these counts: an open circuit breaker; 429, a spent quota or money; the deepest
    HTTP answer; a fault of the transport; an answer in the wrong form; anything else. A programming error that
    ``exc`` itself is (``TypeError``, ``NameError``, ...) is permanent, whatever stands behind it.

    Args:
        exc: the exception. No library is imported to read it, and it stays as it is; the body of a
            ``urllib.error.HTTPError`` is read, and can be read again.

    Returns:
        A ``Failure``; ``status`` is set when an HTTP answer came.

    Raises:
        BaseException: a wish to stop found anywhere in the chain, as itself: ``KeyboardInterrupt``, ``SystemExit``,
            ``GeneratorExit``, ``asyncio.CancelledError``.
    """
    if not isinstance(exc, BaseException):
        raise ConfigError("exc", repr(exc)[:80], "an exception")
    return judge(exc).failure


def judge(exc: BaseException, outside: BaseException | None = None, *, not_cancelled: bool = False) -> Finding:
    """The finding that counts. ``outside`` was being handled before the work began, and is no part of it.

    ``not_cancelled`` says that nobody wants the running task cancelled: a cancellation behind ``exc`` is then how
    some timer cut the work, which went on to fail in another way.
    """
    chain = [
        (depth, error)
        for depth, error in walk(exc, outside)
        if depth == 0 or not (not_cancelled and is_cancellation(error))
    ]
    for _, error in chain:
        if is_control_flow(error):
            raise error
    if is_programming(exc):
        return read(exc)
    found = [(finding, finding.weight(depth)) for depth, error in chain if (finding := read(error))]
    return max(found, key=lambda pair: pair[1])[0]


def is_known(exc: BaseException, outside: BaseException | None = None) -> bool:
    """Whether it comes from HTTP, an SDK, a database, the operating system or a time limit, or stands for such a one.

    These are retried where ``retry_on`` is not given. A programming error never is, and neither is an exception of
    which nothing is known: it may be the program's way of saying that it is done.
    """
    if is_programming(exc) or is_control_flow(exc):
        return False
    return any(read(error).known for _, error in walk(exc, outside) if not is_control_flow(error))


def given_up(exc: BaseException, outside: BaseException | None = None) -> CallError | None:
    """The error with which a steadycall layer below gave up, if that is what ``exc`` comes from."""
    return next((error for _, error in walk(exc, outside) if isinstance(error, CallError)), None)


def is_programming(exc: BaseException) -> bool:
    """Whether it says that the code itself is at fault."""
    return first_row(type(exc)) is programming


def own_fault(cls: type) -> bool:
    """Whether it stands for a fault of the program or of its files: permanent, unless the caller knows better."""
    return first_row(cls) in (programming, system_refused)


def first_row(cls: type) -> Row | None:
    """The row of the most derived class that has one."""
    return next(filter(None, map(row_of, cls.__mro__)), None)


def read(exc: BaseException) -> Finding:
    """What one exception tells by itself: the row of the most derived class that has one and has something to say."""
    for row in filter(None, map(row_of, type(exc).__mro__)):
        if found := row(exc):
            return found
    return _unknown(exc)


_unknown = plain("function_failed", known=False)

# Packages, of one name or two, to the table of their classes.
TABLES: dict[str, Table] = {"steadycall": OURS, **STANDARD, **CLIENTS, **DATABASES, **SDKS}


def row_of(cls: type) -> Row | None:
    """The row of a class, by the names it and its module say they have."""
    module = cls.__module__
    if not isinstance(module, str):
        return None
    package, _, rest = module.partition(".")
    table = TABLES.get(package) or TABLES.get(f"{package}.{rest.partition('.')[0]}") or {}
    return table.get(cls.__name__) or of_pep249(cls)
