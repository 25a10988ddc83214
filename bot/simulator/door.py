"""The guard of the simulator's server: who may come in, and what a browser may do with what it gets.

The page can start runs, so it is treated as a door. Only 127.0.0.1 is listened on; a Host that is not ours is refused
(DNS rebinding); an Origin that is not ours is refused everywhere, and must be there where the page changes something;
the page's token becomes a cookie that no script reads and no other site sends.
"""

import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Door:
    """Checks requests. `port` is set once the server listens."""

    def __init__(self) -> None:
        self.port = 0
        self.page_token = secrets.token_urlsafe(24)
        self.bot_token = f"xoxb-{secrets.token_urlsafe(24)}"
        self.app_token = f"xapp-{secrets.token_urlsafe(24)}"

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def _cookie(self) -> str:
        """Cookies ignore ports, so each simulator has a name of its own."""
        return f"overnight_simulator_{self.port}"

    @property
    def _hosts(self) -> set[str]:
        return {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every request passes here: foreign Hosts and Origins are turned away, every answer carries `HEADERS`."""
        refusal = self._refusal(request)
        if refusal is not None:
            log.warning("refused %s %s: %s", request.method, request.path, refusal)
            return web.Response(status=403, text=refusal, headers=HEADERS)
        try:
            return await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise

    async def add_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        """The answer carries `HEADERS`, streams and sockets included."""
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)

    def let_in(self, request: web.Request) -> bool:
        """Whether a browser at the page's URL gave the right token, now or before."""
        given = request.query.get("token") or request.cookies.get(self._cookie, "")
        return hmac.compare_digest(given.encode(), self.page_token.encode())

    def remember(self, response: web.StreamResponse) -> None:
        response.set_cookie(self._cookie, self.page_token, httponly=True, samesite="Strict", path="/")

    def knows_page(self, request: web.Request) -> bool:
        """Whether the request carries the page's cookie."""
        given = request.cookies.get(self._cookie, "")
        return hmac.compare_digest(given.encode(), self.page_token.encode())

    def knows_bot(self, request: web.Request) -> bool:
        given = request.headers.get(hdrs.AUTHORIZATION, "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self.bot_token.encode())

    def _refusal(self, request: web.Request) -> str | None:
        # slack_sdk's own WebSocket client leaves the port out of Host.
        bare = {"127.0.0.1", "localhost"} if request.path == "/link/" else set()
        if request.headers.get(hdrs.HOST, "") not in self._hosts | bare:
            return "this server answers to its own name only"
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            return "a page of another origin may not call this server"
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method != "GET":
            return "a page of another site may not call this server"
        if request.path.startswith("/page/"):
            if not self.knows_page(request):
                return "open the address with its token first"
            if request.method != "GET" and origin is None:
                return "a change needs an Origin"
        return None
