"""What an exception of a wrapped function means for the policy around it: the classifier, then the caller's two gates."""

from __future__ import annotations

from ._chain import attribute, walk
from ._errors import CallError, ConfigError, DeadlineExceeded, Error, Reject
from ._exceptions import is_known, judge, own_fault
from ._finding import changed, is_ours, pairs
from ._kinds import FailureKind
from ._loop import cancelling
from ._native import failure
from ._records import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._fields import RetryIf
    from ._native import Run
    from ._policy import Policy


class Invalid(Exception):
    """An answer that its validator, or the block it came from, says is none; there is no exception of theirs."""

    def __init__(self, judged: Failure) -> None:
        self.judged = judged


INVALID = failure("validation_failed", "maybe")
REJECTED = failure("answer_rejected", "maybe")
CUT = failure("attempt_timeout", "maybe")


def verdict(answer: object, given: object) -> object:
    """The answer after a validator gave ``given``: itself, or what takes its place.

    Raises:
        Invalid: the validator refused it.
        Reject: the validator gave one.
    """
    if type(given).__module__ == "numpy" and type(given).__name__ in ("bool", "bool_"):
        given = bool(given)  # numpy's truths are no bools, and no answers either
    if given is None or given is True:
        return answer
    if given is False:
        raise Invalid(INVALID)
    if isinstance(given, Reject):
        raise given
    return given


def judge_validator(error: BaseException) -> Failure:
    """What a validator raised: a verdict on the answer, or a fault of its own, which no other answer mends."""
    if isinstance(error, Invalid):
        return error.judged
    if isinstance(error, Reject):
        return REJECTED
    judged = judge(error).failure
    # Ours are ValueErrors too, but of a call or a value of the validator's own.
    if not isinstance(error, Error) and (isinstance(error, ValueError) or judged.kind == FailureKind.VALIDATION):
        return INVALID
    return changed(judged, kind=FailureKind.PERMANENT, retryable=False)


def judge_failure(
    policy: Policy, error: BaseException, run: Run, outside: BaseException | None, cut: bool
) -> tuple[Failure, bool]:
    """How the engine is to see ``error``, and whether a steadycall layer below gave up on it.

    Raises:
        BaseException: a wish to stop found in its chain, as itself.
    """
    if isinstance(error, Invalid):
        return error.judged, False
    if isinstance(error, Reject):
        return REJECTED, False
    if cut or outlived(error, run, outside):
        # The policy's own limit, so `retry_on` need not name it.
        return (CUT if policy.retry_if is None else asked(policy.retry_if, CUT, error)), False
    found = judge(error, outside, not_cancelled=cancelling() == 0)
    judged = found.failure if policy.retry_status is None else found.by(policy._checked)
    kind = attribute(error, "kind")
    told = isinstance(kind, FailureKind) and not isinstance(error, CallError)
    if told and kind != judged.kind:
        judged = changed(judged, kind=kind, retryable=kind != FailureKind.PERMANENT)
    if policy.retry_on is None:
        retried = told or judged.kind == FailureKind.VALIDATION or is_known(error, outside)
    else:
        retried = isinstance(error, policy.retry_on)
        if retried and not told and own_fault(type(error)) and any(map(own_fault, named(policy.retry_on, error))):
            judged = failure("function_failed", "maybe")  # named by the caller, so to him it is none
    if not retried:
        judged = changed(judged, retryable=False)
    if policy.retry_if is not None and (retried or policy.retry_on is None):
        judged = asked(policy.retry_if, judged, error)
    final = not policy.retry_exhausted and is_final(error, run, outside)
    return (changed(judged, retryable=False) if final and judged.retryable else judged), final


def named(types: tuple[type[BaseException], ...], error: BaseException) -> list[type[BaseException]]:
    """Those of ``types`` that ``error`` is."""
    return [one for one in types if isinstance(error, one)]


def asked(retry_if: RetryIf, judged: Failure, error: BaseException) -> Failure:
    """The failure after the caller's own gate."""
    said = retry_if(judged, error)
    if said is None or said is True:
        return judged
    if said is False:
        return changed(judged, retryable=False)
    if isinstance(said, Failure):
        return said
    raise ConfigError("retry_if", f"{said!r} from it", "a callable that gives True, False, None or a Failure")


def outlived(error: BaseException, run: Run, outside: BaseException | None) -> bool:
    """Whether a layer below ran into the end of this attempt, and took it for its own deadline."""
    if run.timeout != 0.0 or run.deadline_left == 0.0:
        return False
    return any(isinstance(found, DeadlineExceeded) for _, found in walk(error, outside))


def is_final(error: BaseException, run: Run, outside: BaseException | None) -> bool:
    """Whether a steadycall layer below gave up on it."""
    below = run.given_up
    return any(
        any(one is found for one in below)
        or (isinstance(found, CallError) and found.stop_reason is not None)
        or our_answer(found) is not None
        for _, found in walk(error, outside)
    )


def our_answer(error: BaseException) -> dict[str, str] | None:
    """The headers, in lower case, of the answer an SDK's error is over, if a transport of ours gave up on that."""
    held = [error, *(attribute(error, name) for name in ("response", "raw_response"))]
    told = (pairs(attribute(one, "headers")) for one in held if one is not None)
    return next(({name.lower(): value for name, value in found} for found in told if is_ours(found)), None)
