"""The real errors of libraries that wrap others, or that judge answers and callers."""

from __future__ import annotations

import json

import circuitbreaker
import jsonschema
import msgspec
import openai
import pybreaker
import pydantic
import pytest
import tenacity

from steadycall.testing import answers

from .faults import Expected, check, raised, serving
from .test_llm_sdks import with_async_openai, with_openai

ONCE = {"stop": tenacity.stop_after_attempt(1)}


@pytest.mark.parametrize("client", [with_openai, with_async_openai])
def test_what_tenacity_gave_up_on_is_what_its_last_attempt_met(client):
    with serving(answers.openai.rate_limited(2)) as url:
        error = raised(tenacity.retry(**ONCE)(client), url)
    assert isinstance(error, tenacity.RetryError)
    check(error, Expected("rate_limited", True, 429, 2.0))


def test_the_last_attempt_is_found_where_the_chain_was_cut():
    with serving(answers.openai.insufficient_quota()) as url:
        error = raised(tenacity.retry(**ONCE)(with_openai), url)
    error.__cause__ = error.__context__ = None
    check(error, Expected("permanent", False, 429, reason="no credit"))


def test_a_last_attempt_that_returned_something_unwanted_is_a_failed_function():
    error = raised(tenacity.retry(retry=tenacity.retry_if_result(lambda _: True), **ONCE)(len), "")
    check(error, Expected("call", True, reason="function failed"))


def test_an_open_breaker_goes_before_the_answer_that_opened_it():
    breaker = pybreaker.CircuitBreaker(fail_max=1)
    with serving(answers.openai.insufficient_quota()) as url:
        error = raised(lambda url: breaker.call(with_openai, url), url)
    assert isinstance(error, pybreaker.CircuitBreakerError)
    assert isinstance(error.__cause__ or error.__context__, openai.RateLimitError)
    check(error, Expected("call", True, sent="no", reason="breaker"))


def test_an_open_breaker_sends_nothing():
    guarded = circuitbreaker.circuit(failure_threshold=1)(with_openai)
    with serving(answers.openai.server_error()) as url:
        check(raised(guarded, url), Expected("call", True, 500))
        check(raised(guarded, url), Expected("call", True, sent="no", reason="breaker"))


class Answer(pydantic.BaseModel):
    total: int


class Struct(msgspec.Struct):
    total: int


@pytest.mark.parametrize(
    "work",
    [
        json.loads,
        Answer.model_validate_json,
        lambda text: jsonschema.validate(text, {"type": "object"}),
        msgspec.json.decode,
        lambda text: msgspec.json.decode('{"total": "x"}', type=Struct),
    ],
)
def test_an_answer_in_the_wrong_form_is_a_validation_failure(work):
    check(raised(work, "Hello."), Expected("validation", True))


def test_a_wrong_schema_is_the_programs_fault():
    check(raised(lambda text: jsonschema.validate(text, {"type": 3}), "x"), Expected("permanent", False))


def test_a_validation_error_counts_less_than_the_answer_behind_it():
    def work(url):
        try:
            with_openai(url)
        except openai.APIStatusError as error:
            raise raised(Answer.model_validate, error.body) from error

    with serving(answers.openai.overloaded()) as url:
        check(raised(work, url), Expected("call", True, 503))
