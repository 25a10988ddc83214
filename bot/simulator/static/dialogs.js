// Confirm dialogs and modals.

import { blocks, textOf } from "./blocks.js";
import { el } from "./dom.js";

/** Whether the reader agreed to what the button's confirm object asks. */
export function confirmed(confirm, ui) {
  const dialog = document.getElementById("confirm");
  return new Promise((settle) => {
    const answer = (yes) => () => {
      dialog.close();
      settle(yes);
    };
    dialog.replaceChildren(
      el("h3", {}, textOf(confirm.title, ui)),
      el("div", { class: "text" }, textOf(confirm.text, ui)),
      el(
        "div",
        { class: "actions end" },
        el("button", { type: "button", class: "button", onclick: answer(false) }, textOf(confirm.deny, ui)),
        el(
          "button",
          { type: "button", class: `button ${confirm.style === "danger" ? "danger" : "primary"}`, onclick: answer(true) },
          textOf(confirm.confirm, ui),
        ),
      ),
    );
    dialog.oncancel = answer(false);
    dialog.showModal();
  });
}

let drawn = "";

/** The view on top is shown, or the dialog closed when there is none. What is typed in it stays while it is the same. */
export function showView(view, ui, post) {
  const dialog = document.getElementById("modal");
  const print = view ? JSON.stringify(view) : "";
  if (print === drawn) return;
  const errorsOnly = print !== "" && sameButErrors(print, drawn);
  drawn = print;
  if (!view) {
    dialog.close();
    return;
  }
  if (errorsOnly) {
    showErrors(dialog, view);
    return;
  }
  const values = {};
  const inView = {
    ...ui,
    set: (block, element, chosen) => {
      values[block.block_id] ??= {};
      values[block.block_id][element.action_id] = { type: element.type, ...chosen };
    },
    press: (element, block, chosen) =>
      post("press_in_view", { view_id: view.id, action_id: element.action_id, block_id: block.block_id, chosen }),
  };
  const close = () => post("close", { view_id: view.id });
  const submit = (event) => {
    event.preventDefault();
    post("submit", { view_id: view.id, values });
  };
  dialog.replaceChildren(
    el(
      "form",
      { onsubmit: submit },
      el("h3", {}, textOf(view.title, ui)),
      blocks(view.blocks, inView),
      el("p", { class: "error trouble" }),
      el(
        "div",
        { class: "actions end" },
        el("button", { type: "button", class: "button", onclick: close }, view.close ? textOf(view.close, ui) : "Cancel"),
        view.submit && el("button", { type: "submit", class: "button primary" }, textOf(view.submit, ui)),
      ),
    ),
  );
  showErrors(dialog, view);
  dialog.oncancel = (event) => {
    event.preventDefault();
    close();
  };
  if (!dialog.open) dialog.showModal();
}

function sameButErrors(print, before) {
  if (!before) return false;
  const without = (text) => JSON.stringify({ ...JSON.parse(text), errors: undefined, trouble: undefined });
  return without(print) === without(before);
}

function showErrors(dialog, view) {
  for (const place of dialog.querySelectorAll(".error[data-block]")) place.textContent = view.errors?.[place.dataset.block] ?? "";
  dialog.querySelector(".trouble").textContent = view.trouble ?? "";
}
