// Slack's mrkdwn, and the Markdown of markdown blocks, as elements.

import { el, link } from "./dom.js";
import { emoji } from "./emoji.js";

const INLINE = new RegExp(
  [
    "`([^`\\n]+)`",
    "<([^<>\\n]+)>",
    ":([a-z0-9_+'-]+):",
    "(?<![\\w*])\\*(?=\\S)([^*\\n]*?\\S)\\*(?![\\w*])",
    "(?<![\\w_])_(?=\\S)([^_\\n]*?\\S)_(?![\\w_])",
    "(?<![\\w~])~(?=\\S)([^~\\n]*?\\S)~(?![\\w~])",
  ].join("|"),
  "g",
);

const MARKDOWN_INLINE =
  /`([^`\n]+)`|\[([^\]\n]+)\]\(([^)\s]+)\)|\*\*(?=\S)(.+?)\*\*|(?<![\w*])[*_](?=\S)([^*_\n]*?\S)[*_](?!\w)|~~(.+?)~~|:([a-z0-9_+'-]+):/g;

export function unescape(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

/** Text with mrkdwn as a list of nodes. `names` tells what users and channels are called. */
export function mrkdwn(text, names) {
  const nodes = [];
  text.split(/```\n?([\s\S]+?)```\n?/).forEach((part, index) => {
    if (index % 2) nodes.push(el("pre", {}, unescape(part.replace(/\n$/, ""))));
    else if (part) nodes.push(...quoted(part, names));
  });
  return nodes;
}

function quoted(text, names) {
  const nodes = [];
  let quote = [];
  const flush = () => {
    if (quote.length) nodes.push(el("blockquote", {}, inline(quote.join("\n"), names)));
    quote = [];
  };
  const lines = text.split("\n");
  lines.forEach((line, index) => {
    const match = /^(?:&gt;|>) ?(.*)$/.exec(line);
    if (match) return quote.push(match[1]);
    const hadQuote = quote.length > 0;
    flush();
    if (line || !hadQuote) nodes.push(...inline(line, names));
    if (index < lines.length - 1) nodes.push("\n");
  });
  flush();
  return nodes;
}

function inline(text, names) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) nodes.push(unescape(text.slice(end, match.index)));
    end = match.index + match[0].length;
    const [whole, code, angle, short, bold, italic, strike] = match;
    if (code) nodes.push(el("code", {}, angled(code)));
    else if (angle) nodes.push(reference(angle, names));
    else if (short) nodes.push(emoji(short) ?? whole);
    else if (bold) nodes.push(el("b", {}, inline(bold, names)));
    else if (italic) nodes.push(el("i", {}, inline(italic, names)));
    else nodes.push(el("s", {}, inline(strike, names)));
  }
  if (end < text.length) nodes.push(unescape(text.slice(end)));
  return nodes;
}

/** Links inside code keep their looks. */
function angled(code) {
  return unescape(code.replace(/<(https?:[^<>|]+)(?:\|([^<>]+))?>/g, (_, address, label) => label ?? address));
}

/** What stands in angle brackets: a person, a channel, everybody, a date or a link. */
function reference(inside, names) {
  const [target, label] = inside.split(/\|(.*)/s);
  if (target.startsWith("@")) {
    return el("span", { class: "mention" }, `@${names(target.slice(1)) ?? label ?? target.slice(1)}`);
  }
  if (target.startsWith("#")) return el("span", { class: "mention" }, `#${label ?? names(target.slice(1)) ?? target}`);
  if (target.startsWith("!date^")) return el("span", { title: label ?? "" }, moment(target));
  if (target.startsWith("!")) return el("span", { class: "mention everybody" }, `@${label ?? target.slice(1)}`);
  return link(unescape(target), unescape(label ?? target));
}

/** A moment on the reader's clock: `!date^1700000000^{date_short_pretty} {time}`. */
function moment(target) {
  const [, seconds, form] = target.split("^");
  const at = new Date(1000 * Number(seconds));
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return form.replace("{time}", time).replace(/\{date[a-z_]*\}/, at.toLocaleDateString());
}

/** Markdown as in a markdown block: headings, lists, tables, quotes, code, and inline marks. */
export function markdown(text) {
  const nodes = [];
  const lines = text.split("\n");
  while (lines.length) {
    const line = lines[0];
    if (/^```/.test(line)) nodes.push(fenced(lines));
    else if (/^\|.*\|\s*$/.test(line) && /^\|[\s:|-]+\|\s*$/.test(lines[1] ?? "")) nodes.push(table(lines));
    else if (/^\s*([-*•]|\d+[.)])\s/.test(line)) nodes.push(list(lines));
    else if (/^>/.test(line)) nodes.push(el("blockquote", {}, marks(taken(lines, /^> ?(.*)$/).join("\n"))));
    else if (/^#{1,6} /.test(line)) nodes.push(el("h4", {}, marks(lines.shift().replace(/^#+ /, ""))));
    else if (/^(-{3,}|\*{3,})$/.test(line)) nodes.push(lines.shift() && el("hr"));
    else if (line.trim()) nodes.push(el("p", {}, marks(lines.shift())));
    else lines.shift();
  }
  return nodes;
}

function taken(lines, pattern) {
  const found = [];
  for (let match; lines.length && (match = pattern.exec(lines[0])); lines.shift()) found.push(match[1]);
  return found;
}

function fenced(lines) {
  lines.shift();
  const code = [];
  while (lines.length && !/^```/.test(lines[0])) code.push(lines.shift());
  lines.shift();
  return el("pre", {}, code.join("\n"));
}

function list(lines) {
  const kind = /^\s*\d/.test(lines[0]) ? "ol" : "ul";
  const items = taken(lines, kind === "ol" ? /^\s*\d+[.)]\s+(.*)$/ : /^\s*[-*•]\s+(.*)$/);
  return el(kind, {}, items.map((item) => el("li", {}, marks(item))));
}

function table(lines) {
  const rows = taken(lines, /^\|(.*)\|\s*$/).map((row) => row.split("|").map((cell) => cell.trim()));
  const row = (cells, kind) => el("tr", {}, cells.map((cell) => el(kind, {}, marks(cell))));
  return el("div", { class: "table" }, el("table", {}, row(rows[0], "th"), rows.slice(2).map((cells) => row(cells, "td"))));
}

function marks(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(MARKDOWN_INLINE)) {
    if (match.index > end) nodes.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    const [whole, code, label, address, bold, italic, strike, short] = match;
    if (code) nodes.push(el("code", {}, code));
    else if (label) nodes.push(link(address, label));
    else if (bold) nodes.push(el("b", {}, marks(bold)));
    else if (italic) nodes.push(el("i", {}, marks(italic)));
    else if (strike) nodes.push(el("s", {}, marks(strike)));
    else nodes.push(emoji(short) ?? whole);
  }
  if (end < text.length) nodes.push(text.slice(end));
  return nodes;
}
