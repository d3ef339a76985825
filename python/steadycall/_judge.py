"""What an exception of a wrapped function means for the policy around it: the classifier, then the caller's two gates."""

from __future__ import annotations

from ._chain import attribute, walk
from ._errors import CallError, ConfigError, Reject
from ._exceptions import is_known, judge
from ._finding import changed, is_ours, pairs
from ._kinds import FailureKind
from ._native import failure
from ._records import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._native import Run
    from ._policy import Policy


class Invalid(Exception):
    """An answer that did not pass its validation, on its way from the validator to the front."""

    def __init__(self, judged: Failure, error: BaseException | None) -> None:
        self.judged = judged
        self.error = error
        """What the validator raised; ``None`` when it said ``False``."""


def invalid(error: Exception) -> Invalid:
    """What a validator raised: a verdict on the answer, or a fault of its own."""
    if isinstance(error, Reject):
        return Invalid(failure("answer_rejected", "maybe"), error)
    if isinstance(error, ValueError) or judge(error).failure.kind == FailureKind.VALIDATION:
        return Invalid(failure("validation_failed", "maybe"), error)
    return Invalid(failure("programming_error", "maybe"), error)


def verdict(answer: object, given: object) -> object:
    """The answer after a validator gave ``given``: itself, or what takes its place.

    Raises:
        Invalid: the validator refused it.
    """
    if given is None or given is True:
        return answer
    if given is False:
        raise Invalid(failure("validation_failed", "maybe"), None)
    if isinstance(given, Reject):
        raise invalid(given)
    return given


def judge_failure(policy: Policy, error: BaseException, run: Run, outside: BaseException | None) -> Failure:
    """How the engine is to see ``error``.

    Raises:
        BaseException: a wish to stop found in its chain, as itself.
    """
    if isinstance(error, Invalid):
        return error.judged
    if isinstance(error, Reject):
        return failure("answer_rejected", "maybe")
    judged = judge(error, outside).failure
    kind = getattr(error, "kind", None)
    if isinstance(kind, FailureKind) and kind != judged.kind and not isinstance(error, CallError):
        judged = changed(judged, kind=kind, retryable=kind != FailureKind.PERMANENT)
    if policy.retry_on is None:
        known = judged.kind == FailureKind.VALIDATION or is_known(error, outside)
    else:
        known = isinstance(error, policy.retry_on)
        if known and judged.reason in _OWN_FAULT and kind != FailureKind.PERMANENT:
            judged = failure("function_failed", "maybe")  # named by the caller, so it is no programming error to him
    if policy.retry_if is not None and (known or policy.retry_on is None):
        said = policy.retry_if(judged, error)
        if isinstance(said, Failure):
            judged, known = said, True
        elif said is False:
            known = False
        elif said is not None and said is not True:
            raise ConfigError("retry_if", f"{said!r} from it", "a callable that gives True, False, None or a Failure")
    if not known or (not policy.retry_exhausted and is_final(error, run, outside)):
        judged = changed(judged, retryable=False)
    return judged


_OWN_FAULT = {failure(name, "maybe").reason for name in ("programming_error", "function_failed")}


def is_final(error: BaseException, run: Run, outside: BaseException | None) -> bool:
    """Whether a steadycall layer below gave up on it."""
    below = run.given_up
    return any(
        any(one is found for one in below)
        or (isinstance(found, CallError) and found.stop_reason is not None)
        or has_our_answer(found)
        for _, found in walk(error, outside)
    )


def has_our_answer(error: BaseException) -> bool:
    """Whether it is an SDK's error over an answer that a transport of ours gave up on."""
    held = [error, *(attribute(error, name) for name in ("response", "raw_response"))]
    return any(is_ours(pairs(attribute(one, "headers"))) for one in held if one is not None)
