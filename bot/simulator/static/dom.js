// Building elements. Text only ever enters through text nodes: nothing here or elsewhere sets innerHTML.

export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function time(ts) {
  return new Date(Number(ts) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

export function day(ts) {
  return new Date(Number(ts) * 1000).toLocaleDateString([], { weekday: "long", day: "numeric", month: "long" });
}

/** A link, where the address is one that a message may lead to; else the words alone. */
export function link(address, ...words) {
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return el("span", {}, ...words);
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, ...words);
}
