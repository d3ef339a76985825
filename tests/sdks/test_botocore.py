"""The real errors of botocore, for Bedrock and for a service with another protocol, raised by a scripted server."""

from __future__ import annotations

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import EventStreamError, NoCredentialsError

import steadycall
from steadycall.testing import Answer, FakeServer, answers

from .faults import TRANSPORT, Expected, check, raised, serving

ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=0.3, connect_timeout=0.3)


def client(url, service="bedrock-runtime", **options):
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"} | options
    return botocore.session.Session().create_client(
        service, endpoint_url=url, region_name="us-east-1", config=ONCE, **keys
    )


def with_bedrock(url):
    client(url).converse(modelId="m", messages=[{"role": "user", "content": [{"text": "Hello?"}]}])


def with_sqs(url):
    client(url, "sqs").list_queues()


def exception(status, name, message="", **headers):
    headers = {"x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/", **headers}
    return Answer(status, headers=headers, json={"message": message})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (exception(403, "AccessDeniedException"), Expected("permanent", False, 403)),
        (exception(400, "ValidationException", "try again"), Expected("permanent", False, 400)),
        (exception(429, "ThrottlingException", "Too many requests, please wait"), Expected("rate_limited", True, 429)),
        (exception(429, "ThrottlingException", **{"Retry-After": "3"}), Expected("rate_limited", True, 429, 3.0)),
        (exception(500, "InternalServerException"), Expected("call", True, 500)),
        (exception(503, "ServiceUnavailableException"), Expected("call", True, 503)),
        (exception(429, "ModelNotReadyException"), Expected("rate_limited", True, 429)),
    ],
    ids=lambda value: value.headers[0][1] if isinstance(value, Answer) and value.headers else "",
)
def test_an_exception_of_bedrock_is_judged_by_its_name_status_and_headers(answer, expected):
    with serving(answer) as url:
        assert check(raised(with_bedrock, url), expected).dialect == "bedrock"


def test_a_service_that_tells_the_exception_in_the_body_is_judged_alike():
    answer = Answer(400, json={"__type": "com.amazonaws.sqs#RequestThrottled", "message": "Slow down."})
    with serving(answer) as url:
        check(raised(with_sqs, url), Expected("rate_limited", True, 400))


# botocore takes half an answer for a whole one, so there is no error to judge.
@pytest.mark.parametrize("fault", sorted(TRANSPORT.keys() - {"cut short"}))
def test_a_fault_of_the_transport_behind_botocore_says_whether_it_was_sent(fault):
    answer, expected = TRANSPORT[fault]
    with serving(answer) as url:
        check(raised(with_bedrock, url), expected)


def test_a_certificate_that_is_not_trusted_is_permanent_behind_botocore(tls):
    with FakeServer(answers.openai.ok(), tls=tls) as server:
        check(raised(with_bedrock, server.url), Expected("permanent", False, sent="no", reason="certificate"))


def test_an_exception_inside_an_event_stream_is_judged_by_its_name():
    def streamed(code):
        return EventStreamError({"Error": {"Code": code, "Message": "m"}}, "ConverseStream")

    assert steadycall.classify_exception(streamed("throttlingException")).kind == "rate_limited"
    assert steadycall.classify_exception(streamed("modelStreamErrorException")).kind == "call"
    assert steadycall.classify_exception(streamed("validationException")).kind == "permanent"


def test_missing_credentials_and_wrong_parameters_are_permanent(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with serving(None) as url:
        nobody = client(url, aws_access_key_id=None, aws_secret_access_key=None)
        error = raised(lambda url: nobody.converse(modelId="m", messages=[]), url)
        assert isinstance(error, NoCredentialsError)
        check(error, Expected("permanent", False, reason="credentials"))
        check(raised(lambda url: client(url).converse(nonsense=3), url), Expected("permanent", False))
