/** What the selected head does in this sentence, measured; and what happens without it. */

import { edit } from "../changes/actions.js";
import { headsOf, mapOf } from "../data/record.js";
import { changeOf, shown } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { decimal } from "../drawing/number.js";
import { say } from "../language/language.js";

/** @typedef {import("../data/record.js").Look} Look */

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountHeadFacts(place, store) {
  store.listen((state, before) => {
    const depends = /** @type {const} */ (["kind", "layer", "head", "several"]);
    const look = shown(state);
    if (look === shown(before) && depends.every((name) => state[name] === before[name])) return;
    const { layers, heads } = look ? headsOf(look, state.kind) : { layers: 0, heads: 0 };
    place.hidden = look === null || Boolean(look.image) || state.layer === null || state.head === null || layers * heads < 2;
    if (look === null || place.hidden) return;
    if (state.several.length > 1) return void replace(place, ...beside(look, state));
    const view = { kind: state.kind, layer: state.layer, head: state.head };
    const off = changeOf(state).edits.some((each) => each.multiply === 0 && each.step === null && each.position === null &&
      each.kind === view.kind && each.layer === view.layer && each.head === view.head);
    const names = { layer: (state.layer ?? 0) + 1, head: (state.head ?? 0) + 1 };
    replace(place, h("h3", {}, say("layer_head", names)),
      h("dl", {}, measures(look, view).flatMap(([name, value]) => [h("dt", {}, say(name)), h("dd", {}, decimal(value))])),
      state.live && !off && h("button", { class: "quiet", title: say("head_off_note"),
        click: () => edit(store, [{ ...view, step: null, position: null, multiply: 0 }]) }, say("switch_off")));
  });
}

/**
 * The measures of several heads, one row each.
 * @param {Look} look
 * @param {import("../data/store.js").State} state
 */
function beside(look, { kind, several }) {
  const all = several.map((each) => measures(look, { kind, ...each }));
  const name = (/** @type {{layer: number, head: number}} */ each) => say("layer_head", { layer: each.layer + 1, head: each.head + 1 });
  return [h("h3", {}, say("several_heads")), h("table", { class: "head-table" },
    h("thead", {}, h("tr", {}, h("td", {}), all[0].map(([measure]) => h("th", { scope: "col" }, say(measure))))),
    h("tbody", {}, several.map((each, index) => h("tr", { class: `head-${index + 1}` },
      h("th", { scope: "row" }, h("span", { class: "swatch", "aria-hidden": "true" }), name(each)),
      all[index].map(([, value]) => h("td", {}, decimal(value)))))))];
}

/**
 * The mean weight on the same position, on the one before it, and on the aligned source piece.
 * @param {Look} look
 * @param {import("../data/record.js").View} view
 * @returns {["same_position" | "previous_position" | "aligned_position", number][]}
 */
function measures(look, view) {
  const map = mapOf(look, view) ?? [];
  const mean = (/** @type {(t: number) => number} */ at) =>
    map.reduce((sum, row, t) => sum + (row[at(t)] ?? 0), 0) / Math.max(map.length, 1);
  const best = (/** @type {number[]} */ row) => row.indexOf(Math.max(...row));
  const aligned = look.alignment;
  return [
    ["same_position", mean((t) => t)],
    ["previous_position", mean((t) => t - 1)],
    ...(view.kind === "cross" && aligned ? [/** @type {["aligned_position", number]} */ (["aligned_position", mean((t) => best(aligned[t]))])] : []),
  ];
}
