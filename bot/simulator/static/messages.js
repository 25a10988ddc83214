// One message as an element, and a list of them that stays at the bottom while the reader is there.

import { blocks, files } from "./blocks.js";
import { day, el, time } from "./dom.js";
import { emoji } from "./emoji.js";
import { mrkdwn } from "./mrkdwn.js";

const GROUP_S = 300;

export function message(item, { store, ui, follows, inThread }) {
  const user = store.user(item.user);
  const mine = item.user === store.viewer && !item.is_ephemeral;
  const replies = inThread ? [] : store.replies(store.current, item.ts);
  return el(
    "article",
    { class: `message${follows ? " follows" : ""}${item.is_ephemeral ? " whisper" : ""}`, "data-ts": item.ts },
    follows ? el("time", { class: "gutter" }, time(item.ts)) : avatar(user),
    el(
      "div",
      { class: "body" },
      item.is_ephemeral && el("div", { class: "only" }, "Only visible to you"),
      !follows &&
        el(
          "div",
          { class: "head" },
          el("b", {}, user.is_bot ? user.real_name : user.real_name),
          user.is_bot && el("span", { class: "app" }, "APP"),
          el("time", {}, time(item.ts)),
        ),
      el("div", { class: "content" }, content(item, ui), item.edited && el("span", { class: "edited" }, "(edited)")),
      item.files && el("div", { class: "files" }, files(item.files)),
      reactions(item, store, ui),
      replies.length > 0 && replyBar(item, replies, store, ui),
    ),
    el(
      "div",
      { class: "tools" },
      !item.is_ephemeral && el("button", { type: "button", onclick: () => ui.react(item, "+1") }, emoji("+1")),
      !item.is_ephemeral && !inThread && el("button", { type: "button", onclick: () => ui.openThread(item) }, "Reply"),
      mine && el("button", { type: "button", onclick: () => ui.edit(item) }, "Edit"),
      item.is_ephemeral && el("button", { type: "button", onclick: () => ui.dismiss(item) }, "Dismiss"),
    ),
  );
}

function content(item, ui) {
  const place = { ...ui, press: (element, block, chosen, node) => ui.pressIn(item, element, block, chosen, node) };
  const parts = item.blocks?.length ? blocks(item.blocks, place) : [];
  if (!parts.length && item.text) parts.push(el("div", { class: "text" }, mrkdwn(item.text, ui.names)));
  for (const attachment of item.attachments ?? []) {
    const words = attachment.text ?? attachment.fallback;
    parts.push(
      el("div", { class: "attachment" }, attachment.blocks ? blocks(attachment.blocks, place) : mrkdwn(words ?? "", ui.names)),
    );
  }
  return parts;
}

function avatar(user) {
  if (user.is_bot) return el("img", { class: "avatar", src: "/static/moon.svg", alt: "" });
  const initials = user.real_name.split(" ").map((word) => word[0]).join("").slice(0, 2);
  const tint = [...user.id].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 6;
  return el("div", { class: `avatar tint-${tint}`, "aria-hidden": "true" }, initials);
}

function reactions(item, store, ui) {
  if (!item.reactions?.length) return null;
  return el(
    "div",
    { class: "reactions" },
    item.reactions.map(({ name, count, users }) =>
      el(
        "button",
        {
          type: "button",
          class: users.includes(store.viewer) ? "mine" : "",
          title: `${users.map((id) => store.user(id).name).join(", ")}: ${name}`,
          onclick: () => ui.react(item, name),
        },
        emoji(name) ?? `:${name}:`,
        el("span", {}, String(count)),
      ),
    ),
  );
}

function replyBar(item, replies, store, ui) {
  const people = [...new Set(replies.map((reply) => reply.user))].slice(0, 4);
  return el(
    "button",
    { type: "button", class: "replies", onclick: () => ui.openThread(item) },
    people.map((id) => avatar(store.user(id))),
    el("b", {}, replies.length === 1 ? "1 reply" : `${replies.length} replies`),
    el("span", {}, `Last reply at ${time(replies.at(-1).ts)}`),
  );
}

/** A scrolled list. It follows its end only while the reader is there. */
export class MessageList {
  constructor(scroll, onAway) {
    this.scroll = scroll;
    this.list = scroll.querySelector(".list");
    this.onAway = onAway;
    this.stuck = true;
    this.nodes = new Map();
    scroll.addEventListener("scroll", () => {
      this.stuck = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 48;
      if (this.stuck) this.onAway(false);
    });
    const observer = new ResizeObserver(() => this.stuck && this.toEnd());
    observer.observe(this.list);
    observer.observe(scroll);
  }

  toEnd() {
    this.stuck = true;
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.onAway(false);
  }

  clear() {
    this.nodes.clear();
    this.list.replaceChildren();
    this.stuck = true;
  }

  /** The list shows these messages; what did not change keeps its element. */
  show(items, context) {
    const kept = new Map();
    const nodes = [];
    let before = null;
    let fresh = false;
    for (const item of items) {
      if (!context.inThread && (!before || day(before.ts) !== day(item.ts))) {
        nodes.push(this.reused(kept, `day ${day(item.ts)}`, "", () => el("div", { class: "day" }, el("span", {}, day(item.ts)))));
      }
      const follows = grouped(before, item) && !(context.inThread && before.ts === items[0].ts);
      const replies = context.inThread ? 0 : context.store.replies(context.store.current, item.ts).length;
      const print = JSON.stringify([item, follows, replies]);
      if (!this.nodes.has(item.ts)) fresh = true;
      nodes.push(this.reused(kept, item.ts, print, () => message(item, { ...context, follows })));
      before = item;
    }
    this.nodes = kept;
    this.place(nodes);
    if (fresh && !this.stuck) this.onAway(true);
    if (this.stuck) this.toEnd();
  }

  /** Only what is new or moved is touched: an element that is taken out and put back loses its focus. */
  place(nodes) {
    const wanted = new Set(nodes);
    for (const node of [...this.list.children]) if (!wanted.has(node)) node.remove();
    nodes.forEach((node, index) => {
      if (this.list.children[index] !== node) this.list.insertBefore(node, this.list.children[index] ?? null);
    });
  }

  reused(kept, key, print, make) {
    const known = this.nodes.get(key);
    const entry = known && known.print === print ? known : { print, node: make() };
    kept.set(key, entry);
    return entry.node;
  }
}

function grouped(before, item) {
  return (
    before !== null &&
    before.user === item.user &&
    !before.is_ephemeral &&
    !item.is_ephemeral &&
    Number(item.ts) - Number(before.ts) < GROUP_S
  );
}
