"""What must not pass a strict type checker: each marked line fails with the code behind its mark, and no other does."""

import steadycall

URL = "https://llm.example/v1/chat/completions"

steadycall.call(URL)  # fails: call-arg
steadycall.call(URL, {}, 3)  # fails: call-arg
steadycall.call(URL, {}, tries="3")  # fails: arg-type
steadycall.call(URL, {}, base="1s")  # fails: arg-type
steadycall.call(URL, {}, sleep=3.0)  # fails: arg-type
steadycall.call(URL, {}, retries=3)  # fails: call-arg
steadycall.call(URL, {}, headers="Authorization: Bearer x")  # fails: arg-type
steadycall.call(URL, {}, retry_status=503)  # fails: arg-type
steadycall.call(URL, {}, retry_transport="no")  # fails: arg-type
steadycall.call(URL, {}, timeout=steadycall.Timeout(5, 5))  # fails: call-arg
steadycall.call(URL, {}, on_end=lambda: None)  # fails: arg-type misc
steadycall.call(URL, {}, ca_bundle=b"roots.pem")  # fails: arg-type

steadycall.classify(429)  # fails: call-arg
steadycall.classify(status="429")  # fails: arg-type

steadycall.classify_exception()  # fails: call-arg
steadycall.classify_exception("429")  # fails: arg-type
steadycall.classify_exception(ValueError).kind  # fails: arg-type

failure = steadycall.classify(status=429)
failure.kind  # fails: union-attr

hint = steadycall.Hint(seconds=2.0, source="Retry-After")
hint.seconds = 3.0  # fails: misc
steadycall.Hint(2.0, "Retry-After")  # fails: call-arg
steadycall.Hint(seconds=2.0)  # fails: call-arg

steadycall.Transport(tries=3)  # fails: call-arg
steadycall.AsyncTransport(on_end=lambda: None)  # fails: arg-type misc
steadycall.wrap()  # fails: call-arg

steadycall.Deadline.after("4s")  # fails: arg-type
steadycall.StopReason.NEVER  # fails: attr-defined


async def awaited() -> None:
    steadycall.acall(URL, {})  # fails: unused-coroutine
    answer: int = steadycall.acall(URL, {})  # fails: assignment
    print(answer)


def caught(error: steadycall.TransportError) -> None:
    error.code  # fails: attr-defined
    error.phase  # fails: attr-defined
