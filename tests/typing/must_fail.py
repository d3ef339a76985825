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

units = steadycall.UnitGroup(steadycall.Policy(), 60, 5)
units.run(call=lambda: "Hi.")  # fails: call-arg
units.run(call=lambda question: "Hi.", save=print)  # fails: arg-type misc
units.run(lambda: "Hi.", print)  # fails: call-arg
units.run(call=lambda: "Hi.", save=print).outcome = "saved"  # fails: misc assignment
steadycall.UnitGroup(steadycall.Policy())  # fails: call-arg
steadycall.UnitGroup(steadycall.Policy(), 60, 5, gone=KeyError())  # fails: arg-type


async def awaited() -> None:
    steadycall.acall(URL, {})  # fails: unused-coroutine
    answer: int = steadycall.acall(URL, {})  # fails: assignment
    await units.arun(call=lambda: "Hi.", save=print)  # fails: arg-type return-value
    print(answer)


def caught(error: steadycall.TransportError) -> None:
    error.code  # fails: attr-defined
    error.phase  # fails: attr-defined


steadycall.Policy(3)  # fails: call-arg
steadycall.Policy(tries="3")  # fails: arg-type
steadycall.Policy(retries=3)  # fails: call-arg
steadycall.Policy(backoff=2.0)  # fails: arg-type
steadycall.Policy(retry_on=OSError())  # fails: arg-type
steadycall.Policy(retry_if=lambda failure: True)  # fails: arg-type misc
steadycall.Policy().replace(retries=3)  # fails: call-arg
steadycall.Backoff.exponential(1, 2, jitter="some")  # fails: arg-type
steadycall.layers(transport="3")  # fails: arg-type
steadycall.scope(requests="6")  # fails: arg-type
steadycall.StreamTimeout(5)  # fails: call-arg
steadycall.StreamTimeout(idle="5")  # fails: arg-type
steadycall.bulk([1], url="https://x", workers=3)  # fails: call-overload
steadycall.BulkRun("rows.jsonl")  # fails: call-arg


@steadycall.retry(retries=3)  # fails: call-overload untyped-decorator
def misspelt() -> None: ...


@steadycall.retry(tries=3)
def ask(question: str) -> str:
    return question


class Service:
    @steadycall.retry(tries=3)
    def ask(self, question: str) -> str:
        return question


ask(3)  # fails: arg-type
ask()  # fails: call-arg
ask("how").missing  # fails: attr-defined
steadycall.Policy().call(ask, 3)  # fails: arg-type
Service().ask(3)  # fails: arg-type
Service().ask.retry_with(tries=1)  # fails: attr-defined
