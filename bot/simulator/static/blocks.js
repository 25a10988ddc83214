// Block Kit as elements. `ui` has names(id), press(element, block, chosen) and, in a modal, set(block, element, value).

import { el, link } from "./dom.js";
import { emoji, withEmoji } from "./emoji.js";
import { markdown, mrkdwn, unescape } from "./mrkdwn.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export function blocks(list, ui) {
  return list.map((block) => (RENDER[block.type] ?? unknown)(block, ui));
}

export function textOf(object, ui) {
  if (!object) return [];
  if (object.type === "mrkdwn") return mrkdwn(object.text, ui.names);
  return withEmoji(unescape(object.text));
}

/** The files of a message: images to look at, the rest to download. */
export function files(list) {
  return list.map((file) =>
    IMAGES.has(file.mimetype)
      ? el("figure", {}, el("figcaption", {}, file.title), image(`/files/${file.id}`, file.alt_txt || file.title))
      : el(
          "a",
          { class: "file", href: `/files/${encodeURIComponent(file.id)}`, download: file.name },
          el("span", { class: "kind" }, (file.filetype || "file").slice(0, 5)),
          el("span", {}, el("b", {}, file.title), el("small", {}, `${size(file.size)} · download`)),
        ),
  );
}

const RENDER = {
  section: (block, ui) =>
    el(
      "div",
      { class: "section" },
      el(
        "div",
        { class: "words" },
        block.text && el("div", { class: "text" }, textOf(block.text, ui)),
        block.fields && el("div", { class: "fields" }, block.fields.map((field) => el("div", { class: "text" }, textOf(field, ui)))),
      ),
      block.accessory && element(block.accessory, block, ui),
    ),
  divider: () => el("hr"),
  header: (block, ui) => el("h3", {}, textOf(block.text, ui)),
  context: (block, ui) =>
    el(
      "div",
      { class: "context" },
      block.elements.map((item) =>
        item.type === "image" ? image(source(item), item.alt_text) : el("span", { class: "text" }, textOf(item, ui)),
      ),
    ),
  actions: (block, ui) => el("div", { class: "actions" }, block.elements.map((item) => element(item, block, ui))),
  image: (block, ui) =>
    el("figure", {}, block.title && el("figcaption", {}, textOf(block.title, ui)), image(source(block), block.alt_text)),
  markdown: (block) => el("div", { class: "markdown" }, markdown(block.text)),
  rich_text: (block, ui) => el("div", { class: "text" }, block.elements.map((item) => rich(item, ui))),
  table: (block, ui) => el("div", { class: "table" }, el("table", {}, block.rows.map((row, index) => tableRow(row, index, block, ui)))),
  input: (block, ui) =>
    el(
      "label",
      { class: "input" },
      el("b", {}, textOf(block.label, ui), block.optional && el("small", {}, " (optional)")),
      element(block.element, block, ui),
      block.hint && el("small", {}, textOf(block.hint, ui)),
      el("small", { class: "error", "data-block": block.block_id }),
    ),
};

function unknown(block) {
  return el("div", { class: "unknown" }, `[${block.type}]`);
}

function tableRow(row, index, block, ui) {
  return el(
    "tr",
    {},
    row.map((cell, column) => {
      const align = block.column_settings?.[column]?.align ?? "left";
      const words = cell.type === "raw_text" ? cell.text : cell.elements.map((item) => rich(item, ui));
      return el(index === 0 ? "th" : "td", { class: `to-${align}` }, words);
    }),
  );
}

function rich(item, ui) {
  const inner = () => item.elements.map((child) => rich(child, ui));
  switch (item.type) {
    case "rich_text_section": return el("span", {}, inner());
    case "rich_text_preformatted": return el("pre", {}, inner());
    case "rich_text_quote": return el("blockquote", {}, inner());
    case "rich_text_list":
      return el(item.style === "ordered" ? "ol" : "ul", {}, item.elements.map((child) => el("li", {}, rich(child, ui))));
    case "text": return styled(item.text, item.style ?? {});
    case "link": return link(item.url, item.text ?? item.url);
    case "emoji": return emoji(item.name) ?? `:${item.name}:`;
    case "user": return el("span", { class: "mention" }, `@${ui.names(item.user_id) ?? item.user_id}`);
    case "channel": return el("span", { class: "mention" }, `#${ui.names(item.channel_id) ?? item.channel_id}`);
    case "broadcast": return el("span", { class: "mention everybody" }, `@${item.range}`);
    default: return "";
  }
}

function styled(text, style) {
  let node = document.createTextNode(text);
  for (const [name, tag] of [["code", "code"], ["bold", "b"], ["italic", "i"], ["strike", "s"]]) {
    if (style[name]) node = el(tag, {}, node);
  }
  return node;
}

/** The address of an image of ours, null for one of another host: the page loads nothing from elsewhere. */
function source(item) {
  if (item.slack_file?.id) return `/files/${item.slack_file.id}`;
  const address = item.slack_file?.url ?? item.image_url ?? "";
  const match = /^http:\/\/(?:127\.0\.0\.1|localhost):\d+(\/files\/\w+)$/.exec(address);
  return match ? match[1] : address;
}

function image(address, alt) {
  if (!address.startsWith("/files/")) return el("span", { class: "elsewhere" }, "image elsewhere: ", link(address, alt));
  return el("a", { href: address, download: true, title: alt }, el("img", { src: address, alt }));
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1048576).toFixed(1)} MB`;
}

// -- elements that do something ---------------------------------------------------------------------------------------

function element(item, block, ui) {
  const put = (chosen) => (ui.set ? ui.set(block, item, chosen) : undefined);
  const use = (chosen) => {
    put(chosen);
    if (block.type !== "input" || block.dispatch_action) ui.press(item, block, chosen);
  };
  switch (item.type) {
    case "button": return button(item, block, ui);
    case "image": return el("div", { class: "thumb" }, image(source(item), item.alt_text));
    case "overflow":
    case "static_select":
    case "users_select":
    case "channels_select":
    case "conversations_select": return menu(item, ui, use, put);
    case "multi_static_select":
    case "checkboxes":
    case "radio_buttons": return choices(item, ui, use, put);
    case "plain_text_input":
    case "number_input":
    case "email_text_input":
    case "url_text_input":
    case "datepicker":
    case "timepicker": return field(item, ui, use, put);
    default: return unknown(item);
  }
}

function button(item, block, ui) {
  const press = () => ui.press(item, block, {}, node);
  const attributes = { type: "button", class: `button ${item.style ?? ""}`, "data-action": item.action_id, onclick: press };
  const node = el("button", attributes, textOf(item.text, ui));
  if (item.url) node.addEventListener("click", () => window.open(item.url, "_blank", "noopener,noreferrer"));
  return node;
}

function menu(item, ui, use, put) {
  const key = { users_select: "selected_user", channels_select: "selected_channel", conversations_select: "selected_conversation" }[item.type];
  const options = key
    ? ui.known(item.type).map(({ id, name }) => ({ value: id, text: { type: "plain_text", text: name } }))
    : (item.options ?? item.option_groups.flatMap((group) => group.options));
  const chosen = (value) => ({ [key ?? "selected_option"]: key ? value : (options.find((option) => option.value === value) ?? null) });
  const first = el("option", { value: "" }, item.placeholder?.text ?? (item.type === "overflow" ? "⋯" : "Choose"));
  const initial = item.initial_option?.value;
  const node = el(
    "select",
    { "data-action": item.action_id, onchange: () => use(chosen(node.value)) },
    first,
    options.map((option) => el("option", { value: option.value, selected: option.value === initial }, textOf(option.text, ui))),
  );
  put(initial ? chosen(initial) : { [key ?? "selected_option"]: null });
  return node;
}

function choices(item, ui, use, put) {
  const one = item.type === "radio_buttons";
  const initial = new Set((item.initial_options ?? [item.initial_option]).filter(Boolean).map((option) => option.value));
  const name = `${item.action_id}-${Math.random()}`;
  const chosen = () => {
    const picked = item.options.filter((_, index) => boxes[index].checked);
    return one ? { selected_option: picked[0] ?? null } : { selected_options: picked };
  };
  const boxes = item.options.map((option) =>
    el("input", { type: one ? "radio" : "checkbox", name, checked: initial.has(option.value), onchange: () => use(chosen()) }),
  );
  put(chosen());
  return el("div", { class: "choices" }, item.options.map((option, index) => el("label", {}, boxes[index], " ", textOf(option.text, ui))));
}

function field(item, ui, use, put) {
  const kinds = { number_input: "number", email_text_input: "email", url_text_input: "url", datepicker: "date", timepicker: "time" };
  const key = { datepicker: "selected_date", timepicker: "selected_time" }[item.type] ?? "value";
  const chosen = () => ({ [key]: node.value || null });
  const node = el(item.multiline ? "textarea" : "input", {
    type: item.multiline ? undefined : (kinds[item.type] ?? "text"),
    rows: item.multiline ? 5 : undefined,
    placeholder: item.placeholder?.text,
    maxlength: item.max_length,
    step: item.is_decimal_allowed ? "any" : undefined,
    "data-action": item.action_id,
    oninput: () => put(chosen()),
    onchange: () => use(chosen()),
  });
  node.value = item.initial_value ?? item.initial_date ?? item.initial_time ?? "";
  put(chosen());
  return node;
}
