"""The page can start runs: what other pages, other hosts and strangers cannot do."""

import http.client
import json
from urllib.parse import urlsplit

import pytest
import websocket
from slack_sdk import WebClient

from bot.simulator import Simulator

SAY = json.dumps({"user": "U0ALICE", "channel": "C0LAB", "text": "@overnight train"})


def ask(
    slack: Simulator, method: str, path: str, headers: dict[str, str], body: str | None = None
) -> http.client.HTTPResponse:
    """The answer to a request with exactly these headers; it is read."""
    at = urlsplit(slack.base_url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=5)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


@pytest.fixture
def cookie(slack: Simulator) -> str:
    """The cookie of a browser that opened the page's URL."""
    answer = ask(slack, "GET", urlsplit(slack.url).path + "?" + urlsplit(slack.url).query, {})
    given = answer.headers["Set-Cookie"]
    assert "HttpOnly" in given
    assert "SameSite=Strict" in given
    return str(given.split(";")[0])


def said(slack: Simulator, **headers: str) -> int:
    """The status of an attempt to speak as Alice with these headers."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(slack, "POST", "/page/say", {"Content-Type": "application/json", **names}, SAY).status


def test_own_page_may_speak(slack: Simulator, cookie: str) -> None:
    """The door opens for the page itself, and typed text is escaped and its mention understood."""
    assert said(slack, Cookie=cookie, Origin=slack.base_url) == 200
    assert slack.messages("C0LAB")[0]["text"] == "<@U0BOT> train"


def test_strangers_may_not_speak(slack: Simulator, cookie: str) -> None:
    """No cookie, another page's origin, no origin at all, or a form that needs no preflight."""
    other = {"Cookie": cookie, "Origin": "http://evil.example"}

    assert said(slack, Origin=slack.base_url) == 403
    assert said(slack, Cookie="overnight_simulator=guess", Origin=slack.base_url) == 403
    assert said(slack, **other) == 403
    assert said(slack, Cookie=cookie) == 403
    assert said(slack, Cookie=cookie, Origin="null") == 403
    assert said(slack, Cookie=cookie, Origin=slack.base_url, Sec_Fetch_Site="cross-site") == 403
    assert said(slack, Cookie=cookie, Origin=slack.base_url, Content_Type="text/plain") == 415
    assert slack.messages("C0LAB") == []


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"])
@pytest.mark.parametrize("path", ["/", "/page/state", "/api/auth.test", "/static/page.js"])
def test_other_host_names_are_refused(slack: Simulator, cookie: str, host: str, path: str) -> None:
    """DNS rebinding: a page whose name was pointed at 127.0.0.1 sends its own name as Host."""
    assert ask(slack, "GET", path, {"Host": host, "Cookie": cookie}).status == 403


def test_api_and_socket_refuse_other_origins(slack: Simulator) -> None:
    """Even with the token: no page but ours talks to this server."""
    headers = {"Origin": "http://evil.example", "Authorization": f"Bearer {slack.bot_token}"}
    assert ask(slack, "POST", "/api/auth.test", headers).status == 403

    url = WebClient(base_url=slack.api_url).apps_connections_open(app_token=slack.app_token)["url"]
    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(url, timeout=5, origin="http://evil.example")


def test_page_needs_its_token(slack: Simulator, cookie: str) -> None:
    """The address without the token shows nothing, and nor do the state, the stream and the files."""
    for path in ("/", "/?token=guess", "/page/state", "/page/stream", "/files/F0000001", "/archives/C0LAB/p1"):
        assert ask(slack, "GET", path, {}).status == 403
    assert ask(slack, "GET", "/", {"Cookie": cookie}).status == 200


def test_every_answer_carries_the_policy(slack: Simulator, cookie: str) -> None:
    """No inline script, no other host, no sniffing, no frames; errors included."""
    for path in ("/", "/static/page.js", "/page/state", "/nowhere", "/api/auth.test"):
        headers = ask(slack, "GET", path, {"Cookie": cookie}).headers
        policy = headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("page.html", b"<script>alert(1)</script>", "application/octet-stream"),
        ("picture.svg", b"<svg onload='alert(1)'/>", "application/octet-stream"),
        ("lies.png", b"<html>not an image</html>", "application/octet-stream"),
        ("curves.png", b"\x89PNG\r\n\x1a\n...", "image/png"),
    ],
)
def test_uploads_are_downloads(
    slack: Simulator, client: WebClient, cookie: str, name: str, data: bytes, kind: str
) -> None:
    """Whatever a run wrote, a browser saves it; only true images get a type."""
    answer = client.files_upload_v2(channel="C0LAB", content=data, filename=name)
    headers = ask(slack, "GET", f"/files/{answer['file']['id']}", {"Cookie": cookie}).headers

    assert headers["Content-Type"] == kind
    assert headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert "sandbox" in headers["Content-Security-Policy"]


def test_bodies_have_limits(slack: Simulator, client: WebClient) -> None:
    """Two megabytes of JSON, and an upload longer than announced."""
    token = {"Authorization": f"Bearer {slack.bot_token}", "Content-Type": "application/json"}
    assert ask(slack, "POST", "/api/chat.postMessage", token, json.dumps({"text": "x" * 2_000_000})).status == 413

    url = client.files_getUploadURLExternal(filename="a", length=3)["upload_url"]
    assert ask(slack, "POST", urlsplit(url).path, {}, "12345").status == 413


def test_server_listens_on_loopback_only(slack: Simulator) -> None:
    """No other machine reaches it."""
    assert urlsplit(slack.base_url).hostname == "127.0.0.1"
