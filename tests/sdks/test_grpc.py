"""The real errors of gRPC, sync and async, raised by a real server on the loopback."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import grpc
import grpc.aio
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status
from hypothesis import given
from hypothesis import strategies as st

import steadycall
from steadycall._known_grpc import details as read_details
from steadycall._known_grpc import fields

from .faults import Expected, check, raised, serving

METHOD = "/steadycall.Test/Ask"


class Serving(grpc.GenericRpcHandler):
    """Every call ends as the test says."""

    def __init__(self, end):
        self.end = end

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.end(context) or b"")


@pytest.fixture
def ends():
    """Starts a server whose calls end so, and gives its address."""
    servers = []

    def start(end):
        server = grpc.server(ThreadPoolExecutor(2), handlers=[Serving(end)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(0).wait()


def ask(address):
    with grpc.insecure_channel(address) as channel:
        channel.unary_unary(METHOD)(b"", timeout=2)


async def ask_async(address):
    async with grpc.aio.insecure_channel(address) as channel:
        await channel.unary_unary(METHOD)(b"", timeout=2)


def ask_stream(address):
    with grpc.insecure_channel(address) as channel:
        list(channel.unary_stream(METHOD)(b"", timeout=2))


BOTH = pytest.mark.parametrize("client", [ask, ask_async, ask_stream])


def abort(code, message="", *details, trailers=()):
    """An end with ``google.rpc`` details in the trailing metadata, as Google's servers send them."""

    def end(context):
        context.set_trailing_metadata(trailers)
        if details:
            packed = [any_pb2.Any() for _ in details]
            for into, detail in zip(packed, details, strict=True):
                into.Pack(detail)
            status = status_pb2.Status(code=code_pb2.Code.Value(code), message=message, details=packed)
            context.abort_with_status(rpc_status.to_status(status))
        context.abort(grpc.StatusCode[code], message)

    return end


def retry_info(seconds, nanos=0):
    return error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds, nanos=nanos))


def quota(quota_id, value):
    violation = error_details_pb2.QuotaFailure.Violation(
        quota_metric="generativelanguage.googleapis.com/requests", quota_id=quota_id, quota_value=value
    )
    return error_details_pb2.QuotaFailure(violations=[violation])


@BOTH
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (abort("RESOURCE_EXHAUSTED", "slow down"), Expected("rate_limited", True)),
        (
            abort("RESOURCE_EXHAUSTED", "slow down", retry_info(2, 500_000_000)),
            Expected("rate_limited", True, hint=2.5),
        ),
        (
            abort("RESOURCE_EXHAUSTED", "x", quota("RequestsPerMinutePerProject", 10), retry_info(7)),
            Expected("rate_limited", True, hint=7.0),
        ),
        (
            abort("RESOURCE_EXHAUSTED", "x", quota("GenerateRequestsPerDayPerProject", 250), retry_info(7)),
            Expected("permanent", False, reason="quota"),
        ),
        (abort("UNAVAILABLE", "try later"), Expected("call", True)),
        (abort("UNAVAILABLE", "try later", retry_info(3)), Expected("call", True, hint=3.0)),
        (abort("UNAVAILABLE", trailers=[("grpc-retry-pushback-ms", "1500")]), Expected("call", True, hint=1.5)),
        (abort("UNAVAILABLE", trailers=[("grpc-retry-pushback-ms", "-1")]), Expected("permanent", False)),
        (abort("INVALID_ARGUMENT", "no"), Expected("permanent", False)),
        (abort("INVALID_ARGUMENT", "no", retry_info(3)), Expected("permanent", False)),
        (abort("UNAUTHENTICATED"), Expected("permanent", False, reason="credentials")),
        (abort("PERMISSION_DENIED"), Expected("permanent", False)),
        (abort("NOT_FOUND"), Expected("permanent", False)),
        (abort("ALREADY_EXISTS"), Expected("permanent", False)),
        (abort("FAILED_PRECONDITION"), Expected("permanent", False)),
        (abort("UNIMPLEMENTED"), Expected("permanent", False)),
        (abort("ABORTED"), Expected("call", True)),
        (abort("INTERNAL"), Expected("call", True)),
        (abort("DEADLINE_EXCEEDED"), Expected("call", True)),
    ],
)
def test_a_status_is_judged_by_its_code_and_details(ends, client, end, expected):
    assert check(raised(client, ends(end)), expected).status is None


@BOTH
def test_a_server_that_cannot_be_reached_is_unavailable(client):
    with serving(None) as url:
        failure = check(raised(client, url.removeprefix("http://")), Expected("call", True))
    assert failure.provider_code == "UNAVAILABLE"


def test_the_clients_own_time_limit_is_a_call_failure(ends):
    def never(context):
        asyncio.run(asyncio.sleep(0.5))

    def hasty(address):
        with grpc.insecure_channel(address) as channel:
            channel.unary_unary(METHOD)(b"", timeout=0.1)

    failure = check(raised(hasty, ends(never)), Expected("call", True, sent="maybe"))
    assert failure.provider_code == "DEADLINE_EXCEEDED"


@given(st.binary(max_size=200))
def test_details_of_any_bytes_are_read_without_an_error(noise):
    fields(noise)
    read_details([("grpc-status-details-bin", noise)])
    packed = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=noise)
    status = status_pb2.Status(code=8, details=[packed]).SerializeToString()
    read_details([("grpc-status-details-bin", status)])


def test_details_are_read_as_googles_json():
    info = error_details_pb2.ErrorInfo(reason="API_KEY_INVALID", domain="googleapis.com", metadata={"service": "s"})
    packed = any_pb2.Any()
    packed.Pack(info)
    status = status_pb2.Status(code=3, message="no", details=[packed]).SerializeToString()
    assert read_details([("grpc-status-details-bin", status)]) == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "s"},
        }
    ]


def test_an_error_that_is_no_finished_call_is_a_failed_function():
    assert steadycall.classify_exception(grpc.RpcError()).kind == "call"
