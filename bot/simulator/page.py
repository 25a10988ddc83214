"""What the page asks for: the files it is made of, the state, a stream of changes, and what a person does there."""

import asyncio
import json
import logging
from collections.abc import Callable
from importlib.resources import files

from aiohttp import web

from bot.simulator.door import Door
from bot.simulator.people import People, composed
from bot.simulator.refusal import Json, NoSuchThing
from bot.simulator.uploads import image_type
from bot.simulator.workspace import Change, Workspace

log = logging.getLogger(__name__)

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEARTBEAT_S = 15.0
_BACKLOG = 2000


class Page:
    """The web page's routes. Its handlers run on the server's loop."""

    def __init__(self, door: Door, workspace: Workspace, people: People, connected: Callable[[], int]) -> None:
        self._door = door
        self._workspace = workspace
        self._people = people
        self._connected = connected
        self._streams: dict[asyncio.Queue[str | None], str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self.index),
            web.get("/archives/{channel}/{message}", self.index),
            web.get("/static/{name}", self.static),
            web.get("/files/{file}", self.file),
            web.get("/page/state", self.state),
            web.get("/page/stream", self.stream),
            web.post("/page/{act}", self.act),
        ]

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._workspace.watch(self._on_change)

    def stop(self) -> None:
        """Every open stream ends."""
        self._workspace.unwatch(self._on_change)
        for queue in list(self._streams):
            self._offer(queue, None)

    def presence_changed(self) -> None:
        """Whoever looks sees whether the app is connected; call it on the loop."""
        for queue in list(self._streams):
            self._offer(queue, _sent({"kind": "presence", "connected": self._connected()}))

    # -- reading --------------------------------------------------------------------------------------------------

    async def index(self, request: web.Request) -> web.Response:
        if not self._door.let_in(request):
            raise web.HTTPForbidden(text="Open the address that was printed at the start: it carries a token.")
        response = _asset("index.html")
        self._door.remember(response)
        return response

    async def static(self, request: web.Request) -> web.Response:
        return _asset(request.match_info["name"])

    async def file(self, request: web.Request) -> web.Response:
        """The upload as a download. Its type is told only for images, so that <img> may show it; nothing else runs."""
        if not (self._door.knows_page(request) or self._door.knows_bot(request)):
            raise web.HTTPForbidden(text="files need the page's cookie or the bot's token")
        file = self._workspace.files.get(request.match_info["file"])
        if file is None or file.data is None or not file.shared:
            raise web.HTTPNotFound
        kind = image_type(file.data) or "application/octet-stream"
        response = web.Response(body=file.data, content_type=kind)
        response.headers["Content-Disposition"] = _attachment(file.name)
        response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
        return response

    async def state(self, request: web.Request) -> web.Response:
        return web.json_response(self._state(self._viewer(request)))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events until the reader leaves; the first tells who is connected."""
        viewer = self._viewer(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        queue: asyncio.Queue[str | None] = asyncio.Queue(_BACKLOG)
        self._streams[queue] = viewer  # before the page hears that the stream is open, and reads the state
        try:
            await response.prepare(request)
            await response.write(_sent({"kind": "presence", "connected": self._connected()}).encode())
            while (text := await _next(queue)) is not None:
                await response.write(text.encode())
        except ConnectionError:
            log.debug("a reader left")
        finally:
            self._streams.pop(queue, None)
        return response

    def _viewer(self, request: web.Request) -> str:
        user = request.query.get("user", "")
        if user not in self._workspace.users:
            user = next(iter(self._workspace.users))
        return user

    def _state(self, viewer: str) -> Json:
        workspace = self._workspace
        with workspace.changed:
            channels = [c for c in workspace.channels.values() if c.person in (None, viewer)]
            return {
                "viewer": viewer,
                "bot": workspace.bot.id,
                "connected": self._connected(),
                "users": [
                    {"id": u.id, "name": u.name, "real_name": u.real_name, "is_bot": u.is_bot}
                    for u in workspace.users.values()
                ],
                "channels": [
                    {"id": c.id, "name": c.name, "topic": c.topic, "is_im": c.is_im, "bot": c.bot_is_member}
                    for c in channels
                ],
                "messages": {c.id: workspace.messages(c.id) for c in channels},
                "ephemerals": [e for e in workspace.ephemerals if e["to"] == viewer],
                "views": [v for v in workspace.views.values() if v["user"] == viewer],
                "home": workspace.homes.get(viewer),
            }

    def _on_change(self, change: Change) -> None:
        """Runs under the workspace's lock, in any thread: it only hands the change to the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._spread, change)

    def _spread(self, change: Change) -> None:
        text = _sent({"kind": change.kind, "channel": change.channel, "body": change.body})
        for queue, viewer in list(self._streams.items()):
            if self._visible(change, viewer):
                self._offer(queue, text)

    def _offer(self, queue: "asyncio.Queue[str | None]", text: str | None) -> None:
        """The piece is in the queue. Too slow a reader is cut off: it reconnects and reads the state anew."""
        if queue.full():
            self._streams.pop(queue, None)
            queue.get_nowait()
            text = None
        queue.put_nowait(text)

    def _visible(self, change: Change, viewer: str) -> bool:
        channel = self._workspace.channels.get(change.channel)
        if channel is not None and channel.person not in (None, viewer):
            return False
        return viewer == change.body.get("to", change.body["user"] if change.kind in ("view", "home") else viewer)

    # -- acting ---------------------------------------------------------------------------------------------------

    async def act(self, request: web.Request) -> web.Response:
        """A person did something: say, edit, react, press, command, submit, press_in_view or close."""
        acts: dict[str, Callable[[Json], object]] = {
            "say": self._say,
            "edit": self._edit,
            "react": self._react,
            "press": self._press,
            "command": self._command,
            "submit": lambda body: self._people.submit(_text(body, "view_id"), body.get("values") or {}),
            "press_in_view": self._press_in_view,
            "close": lambda body: self._people.close(_text(body, "view_id")),
        }
        act = acts.get(request.match_info["act"])
        if act is None:
            raise web.HTTPNotFound
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType
        try:
            body = await request.json()
            act(body)
        except (NoSuchThing, ValueError, KeyError, TypeError, AttributeError) as error:
            return web.json_response({"ok": False, "error": str(error)}, status=400)
        return web.json_response({"ok": True})

    def _say(self, body: Json) -> None:
        text = composed(_text(body, "text"), self._workspace)
        self._people.say(_text(body, "channel"), _text(body, "user"), text, body.get("thread_ts"))

    def _edit(self, body: Json) -> None:
        text = composed(_text(body, "text"), self._workspace)
        self._people.edit(_text(body, "channel"), _text(body, "ts"), text, _text(body, "user"))

    def _react(self, body: Json) -> None:
        place = (_text(body, "channel"), _text(body, "ts"), _text(body, "name"), _text(body, "user"))
        self._people.react(*place, remove=bool(body.get("remove")))

    def _press(self, body: Json) -> None:
        place = (_text(body, "channel"), _text(body, "ts"), _text(body, "action_id"), _text(body, "user"))
        self._people.press(*place, block_id=body.get("block_id"), chosen=body.get("chosen"))

    def _press_in_view(self, body: Json) -> None:
        self._people.press_in_view(
            _text(body, "view_id"), _text(body, "action_id"), block_id=body.get("block_id"), chosen=body.get("chosen")
        )

    def _command(self, body: Json) -> None:
        name, _, text = _text(body, "text").partition(" ")
        self._people.command(name, text.strip(), _text(body, "user"), _text(body, "channel"))


async def _next(queue: "asyncio.Queue[str | None]") -> str | None:
    """The next piece of the stream, a comment after a while without any, None at the end."""
    try:
        return await asyncio.wait_for(queue.get(), _HEARTBEAT_S)
    except TimeoutError:
        return ": still here\n\n"


def _sent(body: Json) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


def _text(body: Json, name: str) -> str:
    value = body[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string")
    return value


def _asset(name: str) -> web.Response:
    """A file of the package's `static` folder, which holds no folders."""
    kind = _TYPES.get(name.rsplit(".", 1)[-1])
    found = files("bot.simulator").joinpath("static")
    if kind is None or name not in {entry.name for entry in found.iterdir()}:
        raise web.HTTPNotFound
    return web.Response(body=found.joinpath(name).read_bytes(), content_type=kind, charset="utf-8")


def _attachment(name: str) -> str:
    safe = "".join(c if c.isalnum() or c in "._- " else "_" for c in name if ord(c) < 128)
    return f'attachment; filename="{safe or "file"}"'
