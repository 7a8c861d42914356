/** One menu for what can be taken away: the link, the picture, the record. */

import { writeLink } from "../data/link.js";
import { seenIn, shown } from "../data/store.js";
import { h } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { keepJson, keepPng, keepSvg } from "./download.js";

/** @typedef {import("../data/store.js").Store} Store */

/**
 * @param {Store} store
 * @param {() => SVGElement | null} drawn the picture on screen
 */
export function shareMenu(store, drawn) {
  const name = () => `${store.state.focus ?? "look"}-attention`;
  const item = (/** @type {string} */ label, /** @type {() => void} */ click, told = label) =>
    h("button", { class: "item", "aria-label": told, click: () => (close(), click()) }, label);
  const picture = (/** @type {(picture: SVGElement, name: string) => unknown} */ keep) => () => {
    const found = drawn();
    if (found) keep(found, name());
  };
  const png = item("PNG", picture(keepPng), `${say("download")} PNG`);
  const svg = item("SVG", picture(keepSvg), `${say("download")} SVG`);
  const json = item("JSON", () => keepJson(shown(store.state) ?? seenIn(store.state), name()), `${say("download")} JSON`);
  const copy = item(say("copy_link"), () => copyLink(store));
  copy.hidden = location.protocol === "about:";
  const menu = /** @type {HTMLDetailsElement} */ (h("details", { class: "menu" },
    h("summary", { class: "quiet" }, say("share")), h("div", { class: "items" }, copy, png, svg, json)));
  const close = () => (menu.open = false);
  menu.addEventListener("toggle", () => {
    png.hidden = svg.hidden = drawn() === null;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!menu.contains(/** @type {Node} */ (event.target))) close();
  });
  store.listen((state) => {
    menu.hidden = shown(state) === null && seenIn(state) === null;
  });
  return menu;
}

/** @param {Store} store */
async function copyLink(store) {
  const address = new URL(location.href);
  address.hash = writeLink(store.state);
  try {
    await navigator.clipboard.writeText(address.href);
    const { mode, picture } = store.state;
    store.set({ notice: say(mode === "image" && !picture?.sample ? "copied_without_image" : "copied") });
  } catch {
    store.set({ notice: `${say("copy_this")} ${address.href}` });
  }
}
