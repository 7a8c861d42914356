/** The colours of several heads that are shown at once. */

import { h, replace } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { chooseHeads } from "./heads.js";

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/table.js").Tables} tables
 */
export function mountLegend(place, store, tables) {
  tables.listen((table) => {
    const several = table?.several ?? null;
    place.hidden = several === null;
    if (several === null) return void replace(place);
    const held = place.contains(document.activeElement);
    replace(place, h("ul", {}, several.map((one, index) => item(store, one, index))), h("p", { class: "hint" }, say("several_hint")));
    if (held) place.querySelector("button")?.focus();
  });
}

/**
 * @param {import("../data/store.js").Store} store
 * @param {{layer: number, head: number}} one
 * @param {number} index
 */
function item(store, { layer, head }, index) {
  const name = say("layer_head", { layer: layer + 1, head: head + 1 });
  const others = store.state.several.filter((each) => each.layer !== layer || each.head !== head);
  return h("li", { class: `head-${index + 1}` },
    h("button", { class: "alone-head", title: say("head_alone", { name }), "aria-label": say("head_alone", { name }), click: () => chooseHeads(store, [{ layer, head }]) },
      h("span", { class: "swatch", "aria-hidden": "true" }), name),
    h("button", { class: "drop-head", "aria-label": say("drop", { what: name }), click: () => chooseHeads(store, others) }, "×"));
}
