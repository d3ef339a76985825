"""Tests of code that calls an LLM API: `pytest examples/test_with_pytest.py`.

The fixtures come with steadycall; docs/testing.md tells what else the server can do.
"""

from __future__ import annotations

import pytest

import steadycall
from steadycall.testing import FakeServer, FakeSleep, answers


def ask(url: str, prompt: str) -> str:
    """The code under test."""
    answer = steadycall.call(url, {"model": "m", "messages": [{"role": "user", "content": prompt}]})
    content: str = answer["choices"][0]["message"]["content"]
    return content


def test_a_rate_limit_is_waited_out(llm_server: FakeServer, fake_sleep: FakeSleep) -> None:
    llm_server.answer(answers.openai.path, answers.openai.rate_limited(retry_after=2), answers.openai.ok("Hi."))
    assert ask(llm_server.url_for(answers.openai.path), "Hello?") == "Hi."
    assert fake_sleep == [2.0]


def test_a_wrong_key_ends_the_call_at_once(llm_server: FakeServer, fake_sleep: FakeSleep) -> None:
    llm_server.answer(answers.openai.path, answers.openai.bad_key())
    with pytest.raises(steadycall.HTTPStatusError) as caught:
        ask(llm_server.url_for(answers.openai.path), "Hello?")
    assert caught.value.code == 401
    assert caught.value.attempts[0].provider_code == "invalid_api_key"
    assert fake_sleep == []
