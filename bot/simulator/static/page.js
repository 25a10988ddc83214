// The page: reads the state, follows the stream, and sends what the viewer does.

import { blocks } from "./blocks.js";
import { confirmed, showView } from "./dialogs.js";
import { el } from "./dom.js";
import { MessageList } from "./messages.js";
import { Store } from "./store.js";

const find = (id) => document.getElementById(id);
const BUSY_MS = 3000;

let store = null;
let stream = null;
let root = null;
let atHome = false;
let editing = null;
const unread = new Set();
const dismissed = new Set();

const room = new MessageList(find("messages"), (away) => (find("newer").hidden = !away));
const thread = new MessageList(find("replies"), () => {});

const ui = {
  names: (id) => store.name(id),
  known: (kind) => (kind === "users_select" ? store.users : store.channels),
  openThread,
  edit: (item) => startEdit(item),
  dismiss: (item) => {
    dismissed.add(item.ts);
    draw();
  },
  react: (item, name) => {
    const there = item.reactions?.find((reaction) => reaction.name === name)?.users.includes(store.viewer);
    post("react", { channel: store.current, ts: item.ts, name, remove: Boolean(there) });
  },
  pressIn: async (item, element, block, chosen, node) => {
    if (element.confirm && !(await confirmed(element.confirm, ui))) return;
    node?.classList.add("busy");
    setTimeout(() => node?.classList.remove("busy"), BUSY_MS);
    post("press", { channel: store.current, ts: item.ts, action_id: element.action_id, block_id: block.block_id, chosen });
  },
};

// -- the server --------------------------------------------------------------------------------------------------------

async function post(act, body) {
  const response = await fetch(`/page/${act}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ user: store.viewer, ...body }),
  });
  if (response.ok) return true;
  const answer = await response.json().catch(() => ({ error: `the simulator answered ${response.status}` }));
  notice(answer.error);
  return false;
}

let loads = 0;
let loaded = 0;
let held = [];

/** The whole state, and after it what the stream brought meanwhile: the answer may be older than that. */
async function load(user) {
  const mine = ++loads;
  const response = await fetch(`/page/state?user=${encodeURIComponent(user)}`);
  if (!response.ok) return notice("The simulator does not know this browser. Open the address that was printed at its start.");
  const state = await response.json();
  if (mine !== loads) return; // a later one is under way
  const before = store?.current;
  store = new Store(state);
  held.forEach((change) => store.apply(change));
  held = [];
  loaded = mine;
  const places = store.channels.map((channel) => channel.id);
  store.current = places.includes(before) ? before : places[0];
  sessionStorage.setItem("who", store.viewer);
  draw();
}

function follow() {
  stream?.close();
  stream = new EventSource(`/page/stream?user=${encodeURIComponent(store.viewer)}`);
  stream.onopen = () => load(store.viewer); // what came while there was no stream
  stream.onmessage = (event) => {
    const change = JSON.parse(event.data);
    if (loaded !== loads) held.push(change);
    if (change.kind === "posted" && change.channel !== store.current) unread.add(change.channel);
    if (store.apply(change)) load(store.viewer);
    else draw();
  };
  stream.onerror = () => {
    store.connected = 0;
    drawPresence();
  };
}

// -- drawing -----------------------------------------------------------------------------------------------------------

let due = false;
let sidebar = "";
let home = "";

/** Once for all changes of a moment. Not by animation frame: a hidden tab has none. */
function draw() {
  if (due) return;
  due = true;
  queueMicrotask(() => {
    due = false;
    drawAll();
  });
}

function drawAll() {
  drawSidebar();
  drawPresence();
  const channel = store.channel(store.current);
  find("room-name").textContent = channel.is_im ? store.user(store.bot).real_name : `# ${channel.name}`;
  find("room-topic").textContent = channel.topic;
  find("home").hidden = !(channel.is_im && store.home);
  find("home").textContent = atHome ? "Messages" : "Home";
  const name = channel.is_im ? store.user(store.bot).real_name : `#${channel.name}`;
  find("composer").querySelector("textarea").placeholder = `Message ${name}`;
  document.title = `${name} | Lab (simulated Slack)`;
  if (atHome && channel.is_im && store.home) drawHome();
  else {
    home = "";
    room.show(shown(store.roots(store.current)), { store, ui });
  }
  drawThread();
  showView([...store.views.values()].at(-1), ui, post);
}

function shown(items) {
  return items.filter((item) => !dismissed.has(item.ts));
}

function drawThread() {
  const items = root ? shown(store.thread(store.current, root)) : [];
  find("thread").hidden = items.length === 0;
  document.body.classList.toggle("in-thread", items.length > 0);
  if (!items.length) return;
  const channel = store.channel(store.current);
  find("thread-room").textContent = channel.is_im ? "" : `#${channel.name}`;
  thread.show(items, { store, ui, inThread: true });
}

function drawHome() {
  const view = store.home;
  if (home === view.hash) return;
  home = view.hash;
  room.clear();
  const press = (element, block, chosen) =>
    post("press_in_view", { view_id: view.id, action_id: element.action_id, block_id: block.block_id, chosen });
  room.list.replaceChildren(el("div", { class: "home" }, blocks(view.blocks, { ...ui, press })));
}

function drawSidebar() {
  const print = JSON.stringify([store.channels, store.users, store.viewer, store.current, [...unread]]);
  if (print === sidebar) return;
  sidebar = print;
  const entry = (channel) =>
    el(
      "button",
      {
        type: "button",
        class: `${channel.id === store.current ? "here" : ""} ${unread.has(channel.id) ? "unread" : ""}`,
        "data-channel": channel.id,
        onclick: () => go(channel.id),
      },
      channel.is_im ? el("img", { src: "/static/moon.svg", alt: "" }) : el("span", {}, "#"),
      channel.is_im ? store.user(store.bot).real_name : channel.name,
    );
  const open = store.channels.filter((channel) => !channel.is_im);
  const direct = store.channels.filter((channel) => channel.is_im);
  find("channels").replaceChildren(
    el("h2", {}, "Channels"),
    ...open.map(entry),
    el("h2", {}, "Direct messages"),
    ...direct.map(entry),
  );
  const people = store.users.filter((user) => !user.is_bot);
  find("who").replaceChildren(
    ...people.map((user) => el("option", { value: user.id, selected: user.id === store.viewer }, user.real_name)),
  );
}

function drawPresence() {
  const presence = find("presence");
  presence.classList.toggle("on", store.connected > 0);
  presence.textContent = store.connected > 0 ? "bot connected" : "bot away";
}

function notice(text) {
  find("notice").textContent = text;
  find("notice").hidden = false;
  setTimeout(() => (find("notice").hidden = true), 6000);
}

// -- what the viewer does ----------------------------------------------------------------------------------------------

function go(channel) {
  store.current = channel;
  unread.delete(channel);
  root = null;
  atHome = false;
  stopEdit();
  room.clear();
  document.body.classList.remove("menu-open");
  draw();
}

function openThread(item) {
  root = item.thread_ts ?? item.ts;
  thread.clear();
  draw();
  find("reply").querySelector("textarea").focus();
}

function startEdit(item) {
  editing = item;
  const inThread = item.thread_ts && item.thread_ts !== item.ts;
  const form = find(inThread ? "reply" : "composer");
  const words = item.text.replace(/<@(\w+)>/g, (whole, id) => `@${store.name(id) ?? id}`).replace(/<#\w+\|([^>]+)>/g, "#$1");
  form.classList.add("editing");
  const area = form.querySelector("textarea");
  area.value = words.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
  area.focus();
}

function stopEdit() {
  editing = null;
  for (const form of document.querySelectorAll(".composer.editing")) {
    form.classList.remove("editing");
    form.querySelector("textarea").value = "";
  }
}

async function send(form, inThread) {
  const area = form.querySelector("textarea");
  const text = area.value.trim();
  if (!text) return;
  let sent;
  if (editing && form.classList.contains("editing")) {
    sent = await post("edit", { channel: store.current, ts: editing.ts, text });
    if (sent) stopEdit();
  } else if (/^\/[a-z]/.test(text)) {
    if (inThread) return notice("Slash commands do not work in threads; type it in the channel.");
    sent = await post("command", { channel: store.current, text });
  } else {
    sent = await post("say", { channel: store.current, text, thread_ts: inThread ? root : null });
  }
  if (!sent) return;
  area.value = "";
  fit(area);
  (inThread ? thread : room).toEnd();
}

function fit(area) {
  area.rows = Math.min(8, area.value.split("\n").length);
}

for (const [id, inThread] of [["composer", false], ["reply", true]]) {
  const form = find(id);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, inThread);
  });
  const area = form.querySelector("textarea");
  area.addEventListener("input", () => fit(area));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send(form, inThread);
    }
    if (event.key === "Escape") stopEdit();
  });
}
find("newer").addEventListener("click", () => room.toEnd());
find("menu").addEventListener("click", () => document.body.classList.toggle("menu-open"));
find("messages").addEventListener("click", () => document.body.classList.remove("menu-open"));
find("home").addEventListener("click", () => {
  atHome = !atHome;
  room.clear();
  draw();
});
find("thread-close").addEventListener("click", () => {
  root = null;
  draw();
});
find("who").addEventListener("change", async (event) => {
  root = null;
  room.clear();
  stream?.close();
  await load(event.target.value);
  if (live) follow();
});

/** A permalink such as /archives/C0LAB/p1700000000000100 leads to its message, or to the thread that it is in. */
function goToLink(path) {
  const [, channel, seconds, micros] = /^\/archives\/(\w+)\/p(\d{10})(\d{6})$/.exec(path) ?? [];
  const found = store.messages.get(channel)?.get(`${seconds}.${micros}`);
  if (!found) return;
  go(channel);
  if (found.thread_ts) root = found.thread_ts;
}

const path = location.pathname;
const live = new URLSearchParams(location.search).get("live") !== "off";
history.replaceState(null, "", "/"); // the token has done its work
await load(sessionStorage.getItem("who") ?? "");
if (store) {
  goToLink(path);
  if (live) follow();
}
