"""What stands between a call and its server: the URL, the proxies of the environment, and certificates."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import steadycall
from steadycall.testing import Answer, FakeServer

OK = Answer(json={"ok": True})
PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*PROXIES, *map(str.lower, PROXIES), "SSL_CERT_FILE", "SSL_CERT_DIR"]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


# The URL


@pytest.mark.parametrize(
    "mistake",
    ["http:/{}", "http:{}", "http:///{}", "http://@{}/", "http://:@{}/", " http://{}/", "http://{}/ ", "http:\\\\{}/"],
)
def test_a_url_that_only_a_browser_would_mend_is_refused(server: FakeServer, mistake: str) -> None:
    server.answer("*", OK)
    url = mistake.format(server.url.removeprefix("http://"))
    with pytest.raises(steadycall.ConfigError, match="url must be an http or https URL") as caught:
        steadycall.call(url, {}, tries=1)
    assert caught.value.field == "url"
    assert server.requests == []


# Proxies


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_proxy_of_the_environment_is_used_and_no_proxy_keeps_a_host_from_it(
    monkeypatch: pytest.MonkeyPatch, server: FakeServer, name: str
) -> None:
    server.answer("*", OK)
    with FakeServer(Answer(json="proxied")) as proxy:
        monkeypatch.setenv(name, proxy.url)
        assert steadycall.call(server.url, {}) == "proxied"
        port = server.url.rpartition(":")[2]
        for exception in ("*", f"127.0.0.1:{port}", "127.0.0.1", "127.0.0.0/8", "x, 127.0.0.1 y"):
            monkeypatch.setenv("no_proxy", exception)
            assert steadycall.call(server.url, {}) == {"ok": True}
        for other in ("127.0.0.1:1", "10.0.0.0/8", "localhost", ","):
            monkeypatch.setenv("no_proxy", other)
            assert steadycall.call(server.url, {}) == "proxied"
        monkeypatch.setenv("no_proxy", "*")
        assert steadycall.call(server.url, {}, proxy=proxy.url.removeprefix("http://")) == "proxied"


@pytest.mark.parametrize(
    "value", ["ftp://user:SECRET@127.0.0.1", "socks5://user:SECRET@127.0.0.1:1080", "http://user:SECRET@127.0.0.1:port"]
)
@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
def test_a_variable_that_names_no_proxy_is_named_itself_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, server: FakeServer, name: str, value: str
) -> None:
    server.answer("*", OK)
    monkeypatch.setenv(name, value)
    with pytest.raises(steadycall.ConfigError) as caught:
        steadycall.call(server.url, {})
    assert caught.value.field == name
    assert "SECRET" not in str(caught.value) + repr(caught.value)
    assert server.requests == []
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert steadycall.call(server.url, {}) == {"ok": True}


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_that_opens_no_tunnel_at_first_is_asked_again(status: int) -> None:
    waits: list[float] = []
    with FakeServer(Answer(status=status)) as proxy:
        with pytest.raises(steadycall.ProxyError) as caught:
            steadycall.call("https://llm.invalid/", {}, proxy=proxy.url, tries=3, sleep=waits.append)
    assert len(waits) == 2
    assert caught.value.sent == "no"
    assert "opened no connection" in str(caught.value)


def test_a_proxy_that_wants_a_password_ends_the_call() -> None:
    with FakeServer(Answer(status=407)) as proxy:
        with pytest.raises(steadycall.ProxyError, match="asks for credentials"):
            steadycall.call("https://llm.invalid/", {}, proxy=proxy.url)
        with pytest.raises(steadycall.HTTPStatusError) as caught:
            steadycall.call("http://llm.invalid/", {}, proxy=proxy.url)
        assert caught.value.code == 407
        assert len(proxy.requests) == 2


# Certificates


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command to make a certificate")
def test_what_openssl_makes_by_default_is_trusted_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=llm"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*make.split(), *names], check=True, capture_output=True)
    shown = subprocess.run(["openssl", "x509", "-in", cert, "-noout", "-text"], capture_output=True, check=True)
    assert b"CA:TRUE" in shown.stdout
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    with FakeServer(OK, tls=context) as server:
        assert steadycall.call(server.url, {}, ca_bundle=cert) == {"ok": True}
        other_name = server.url.replace("127.0.0.1", "localhost")
        with pytest.raises(steadycall.TLSError):
            steadycall.call(other_name, {}, ca_bundle=cert)
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert steadycall.call(server.url, {}) == {"ok": True}


@pytest.mark.parametrize("there", [True, False])
def test_a_broken_ssl_cert_file_is_named_before_anything_is_sent_whatever_ssl_cert_dir_holds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: FakeServer, there: bool
) -> None:
    (tmp_path / "junk.pem").write_text("not a certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / ("junk.pem" if there else "none.pem")))
    monkeypatch.setenv("SSL_CERT_DIR", "/etc/ssl/certs")
    with pytest.raises(steadycall.ConfigError, match="no certificate in it" if there else "No such file") as caught:
        steadycall.call("https://127.0.0.1:1/", {})
    assert caught.value.field == "SSL_CERT_FILE"
    # An http call asks for no certificate.
    server.answer("*", OK)
    assert steadycall.call(server.url, {}) == {"ok": True}


# Answers that are no JSON, and answers that only look like errors


def test_broken_json_is_not_asked_for_again_and_json_that_was_cut_is(server: FakeServer) -> None:
    server.answer("*", Answer(body=b"{'a", headers={"content-type": "application/json"}), OK)
    with pytest.raises(steadycall.ResponseError, match="not JSON"):
        steadycall.call(server.url, {}, sleep=[].append)
    assert len(server.requests) == 1
    server.answer("*", Answer(body=b'{"a": "b', headers={"content-type": "application/json"}), OK)
    assert steadycall.call(server.url, {}, sleep=[].append) == {"ok": True}


def test_an_error_that_says_none_beside_a_result_is_an_answer(server: FakeServer) -> None:
    server.answer("*", Answer(json={"error": "none", "result": 5}))
    assert steadycall.call(server.url, {}, tries=1) == {"error": "none", "result": 5}
