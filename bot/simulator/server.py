"""The aiohttp server: the Web API, uploads, response URLs, Socket Mode and the page behind one port."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import BodyPartReader, hdrs, web

from bot.simulator.api import METHODS, Call
from bot.simulator.door import Door
from bot.simulator.events import events_of, wrapped
from bot.simulator.interactions import Interactions
from bot.simulator.limits import Limits
from bot.simulator.page import Page
from bot.simulator.people import People
from bot.simulator.rates import Fault, Rates
from bot.simulator.refusal import Json, SlackRefusal, Throttled
from bot.simulator.sockets import Delivery, Sockets
from bot.simulator.workspace import Change, Workspace

log = logging.getLogger(__name__)

_CHUNK_BYTES = 65536


@dataclass(frozen=True)
class ApiCall:
    """One call that the app made. `error` is None when it went well; `at_s` is monotonic."""

    method: str
    args: Json
    at_s: float
    error: str | None
    ts: str | None


class Server:
    """Everything behind the port. It is made in any thread, and runs on the loop that awaits `start`."""

    def __init__(
        self,
        workspace: Workspace,
        limits: Limits,
        *,
        ack_timeout_s: float,
        redelivery_s: tuple[float, ...],
        rates: Rates,
    ) -> None:
        self.workspace = workspace
        self.door = Door()
        self.rates = rates
        self.calls: list[ApiCall] = []
        self.api_delay_s = 0.0
        self.sockets = Sockets(ack_timeout_s, redelivery_s, limits.connection.count)
        self.interactions = Interactions(workspace, limits)
        self.people = People(workspace, self.interactions, self._deliver)
        self._limits = limits
        self._page = Page(self.door, workspace, self.people, lambda: self.sockets.count)
        self._upload_tickets: dict[str, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runner: web.AppRunner | None = None

    async def start(self, port: int) -> None:
        """The server listens on 127.0.0.1; `door.port` tells where. Raises OSError when the port is taken."""
        self._loop = asyncio.get_running_loop()
        self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.door.port = self._runner.addresses[0][1]
        self.interactions.base_url = self.door.base_url
        self.sockets.on_change = self._sockets_changed
        self.workspace.watch(self._on_change)
        self._page.start()
        log.info("simulator: listening on %s", self.door.base_url)

    async def stop(self) -> None:
        """Connections are closed and the port is free."""
        self.workspace.unwatch(self._on_change)
        self._page.stop()
        await self.sockets.shut()
        if self._runner is not None:
            await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self.door.middleware], client_max_size=self._limits.body.json_bytes)
        app.on_response_prepare.append(self.door.add_headers)
        app.add_routes(
            [
                web.get("/api/{method}", self.call),
                web.post("/api/{method}", self.call),
                web.post("/upload/{ticket}", self.upload),
                web.post("/respond/{name}", self.respond),
                web.get("/link/", self.link),
                *self._page.routes(),
            ]
        )
        return app

    # -- events to the app ----------------------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        """Runs under the workspace's lock, in any thread: it only hands events to the loop."""
        for event in events_of(change, self.workspace):
            kind = ".".join(part for part in (event["type"], event.get("subtype")) if part)
            ts = str(change.body.get("ts", ""))
            payload = wrapped(event, int(time.time()), self.workspace.bot.id)
            self._deliver(Delivery("events_api", kind, ts, payload, change.at_s))

    def _deliver(self, delivery: Delivery) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.sockets.deliver, delivery)

    def _sockets_changed(self) -> None:
        self.workspace.notify()
        self._page.presence_changed()

    # -- Web API --------------------------------------------------------------------------------------------------

    async def call(self, request: web.Request) -> web.Response:
        """A Web API method, with the faults and limits that are set."""
        method = request.match_info["method"]
        fault = self.rates.fault_for(method)
        await asyncio.sleep(self.api_delay_s + (fault.delay_s if fault else 0.0))
        if fault is not None and not fault.after:
            early = self._faulty(request, fault)
            if early is not None:
                return early
        args = await _arguments(request)
        response = self._answer(request, method, args)
        if fault is not None and fault.after:
            return self._faulty(request, fault) or response
        return response

    def _answer(self, request: web.Request, method: str, args: Json) -> web.Response:
        error: str | None = None
        answer: Json = {}
        try:
            self._authorise(request, method, args)
            answer = self._run(method, args)
            return web.json_response({"ok": True, **answer})
        except SlackRefusal as refusal:
            error = refusal.code
            log.info("%s: refused: %s", method, refusal)
            return web.json_response(refusal.answer())
        except Throttled as throttled:
            error = "ratelimited"
            return _throttled(throttled.retry_after_s)
        finally:
            kept = {key: value for key, value in args.items() if key != "token"}
            self.calls.append(ApiCall(method, kept, time.monotonic(), error, answer.get("ts")))
            self.workspace.notify()

    def _run(self, method: str, args: Json) -> Json:
        wait_s = self.rates.wait_s(method, str(args.get("channel") or args.get("channel_id") or ""))
        if wait_s:
            raise Throttled(wait_s)
        call = Call(
            args,
            self.workspace,
            self.interactions,
            self.sockets,
            self._limits,
            self.door.base_url,
            self._new_upload_ticket,
        )
        with self.workspace.changed:
            return METHODS[method](call)

    def _authorise(self, request: web.Request, method: str, args: Json) -> None:
        """Raises SlackRefusal unless the token is the right one for the method, in the header or among the fields."""
        if method not in METHODS:
            raise SlackRefusal("unknown_method", req_method=method)
        header = request.headers.get(hdrs.AUTHORIZATION, "")
        token = header.removeprefix("Bearer ") if header.startswith("Bearer ") else str(args.get("token") or "")
        if not token:
            raise SlackRefusal("not_authed")
        if token not in (self.door.bot_token, self.door.app_token):
            raise SlackRefusal("invalid_auth")
        if (token == self.door.app_token) != (method == "apps.connections.open") and method != "api.test":
            raise SlackRefusal("not_allowed_token_type")

    def _faulty(self, request: web.Request, fault: Fault) -> web.Response | None:
        if fault.hang_up and request.transport is not None:
            request.transport.abort()
            return web.Response(status=500)
        if fault.retry_after_s is not None:
            return _throttled(fault.retry_after_s)
        if fault.status is not None:
            return web.Response(status=fault.status, text="the simulator was told to fail")
        if fault.error is not None:
            return web.json_response({"ok": False, "error": fault.error})
        return None

    # -- uploads, answers, connections ----------------------------------------------------------------------------

    def _new_upload_ticket(self, file_id: str) -> str:
        ticket = secrets.token_urlsafe(16)
        self._upload_tickets[ticket] = file_id
        return ticket

    async def upload(self, request: web.Request) -> web.Response:
        """The bytes of a file, raw or as a form; exactly as many as were announced."""
        file = self.workspace.files.get(self._upload_tickets.pop(request.match_info["ticket"], ""))
        if file is None:
            raise web.HTTPNotFound(text="no such upload")
        data = await _body(request, file.length)
        if len(data) != file.length:
            raise web.HTTPBadRequest(text=f"{file.length} bytes were announced, {len(data)} came")
        file.data = data
        return web.Response(text=f"OK - {len(data)}")

    async def respond(self, request: web.Request) -> web.Response:
        """An answer to an interaction. Slack says `ok`, or 404 and why not."""
        try:
            with_body = await _arguments(request)
            with self.workspace.changed:
                self.interactions.respond(request.match_info["name"], with_body)
        except SlackRefusal as refusal:
            log.info("response_url: refused: %s", refusal)
            return web.json_response(refusal.answer(), status=404 if refusal.code.endswith("_url") else 200)
        return web.Response(text="ok")

    async def link(self, request: web.Request) -> web.StreamResponse:
        """A Socket Mode connection, for one use of the ticket that apps.connections.open gave."""
        if not self.sockets.redeem(request.query.get("ticket", "")):
            raise web.HTTPForbidden(text="this ticket is unknown or was used")
        socket = web.WebSocketResponse(heartbeat=30.0, max_msg_size=self._limits.body.json_bytes)
        await socket.prepare(request)
        await self.sockets.serve(socket, request.transport)
        return socket


def _throttled(retry_after_s: int) -> web.Response:
    headers = {"Retry-After": str(retry_after_s)}
    return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)


async def _arguments(request: web.Request) -> Json:
    """The fields of a call: of the URL, a JSON object or a form. A body that is neither counts as empty."""
    args: Json = dict(request.query)
    if request.content_type == "application/json":
        try:
            body = json.loads(await request.text() or "{}")
        except ValueError:
            raise web.HTTPBadRequest(text="invalid_json") from None
        return {**args, **body} if isinstance(body, dict) else args
    if request.method == "POST":
        args.update({key: value for key, value in (await request.post()).items() if isinstance(value, str)})
    return args


async def _body(request: web.Request, most: int) -> bytes:
    """The bytes of an upload. Raises HTTPRequestEntityTooLarge when more than announced arrive."""
    if not request.content_type.startswith("multipart/"):
        return await _collect(request.content.iter_chunked(_CHUNK_BYTES), most)
    async for part in await request.multipart():
        if isinstance(part, BodyPartReader) and part.filename is not None:
            return await _collect(_chunks(part), most)
    return b""


async def _chunks(part: BodyPartReader) -> AsyncIterator[bytes]:
    while chunk := await part.read_chunk(_CHUNK_BYTES):
        yield chunk


async def _collect(chunks: AsyncIterator[bytes], most: int) -> bytes:
    data = bytearray()
    async for chunk in chunks:
        data += chunk
        if len(data) > most:
            raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=len(data))
    return bytes(data)
