/** Choose the map: words or subwords, kind of attention, layer and head. */

import { gather, hasAttention, headsOf, mapOf, sidesOf, unitsOf } from "../data/record.js";
import { NOWHERE, shown } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { miniature } from "../drawing/miniature.js";
import { say } from "../language/language.js";

const THUMB = 34;
const MOST_HEADS = 6; // at once: as many as there are colours
const KINDS = ["cross", "encoder-self", "decoder-self"];

/**
 * @typedef {import("../data/store.js").Store} Store
 * @typedef {import("../data/record.js").Look} Look
 */

/**
 * @param {HTMLElement} switches words or subwords, kind of attention
 * @param {HTMLElement} heads a column beside the matrix
 * @param {Store} store
 */
export function mountHeads(switches, heads, store) {
  store.listen((state, before) => {
    const look = shown(state);
    switches.hidden = look === null || !hasAttention(look);
    const depends = /** @type {const} */ (["unit", "specials", "kind", "layer", "head", "several", "many", "threshold"]);
    if (look === shown(before) && depends.every((name) => state[name] === before[name])) return;
    if (look === null) return;
    const held = document.activeElement?.getAttribute("data-choice");
    replace(switches, ...toggles(store, look));
    const { layers, heads: count } = headsOf(look, state.kind);
    heads.hidden = layers * count <= 1 || Boolean(look.image && layers * count <= 1);
    replace(heads, ...(heads.hidden ? [] : chooser(store, look)));
    const again = /** @type {HTMLElement | null} */ (held ? document.querySelector(`[data-choice="${held}"]`) : null);
    again?.focus();
  });
}

/**
 * @param {Store} store
 * @param {Look} look
 */
function toggles(store, look) {
  const { unit, specials, kind } = store.state;
  const kinds = KINDS.filter((name) => name in look.attention || name in (look.model.attention ?? {}));
  return [
    group(say("pieces"), /** @type {const} */ (["words", "pieces"]).map((name) =>
      option(say(name), unit === name, `unit-${name}`, () => store.set({ unit: name })))),
    kinds.length > 1 && group(say("map"), kinds.map((name) =>
      option(say(/** @type {any} */ (`${name}-short`)), kind === name, `kind-${name}`, () =>
        store.set({ kind: name, layer: null, head: null, several: [], ...NOWHERE }), say(/** @type {any} */ (name))))),
    !look.image && threshold(store),
    !look.image && h("label", { class: "check" },
      h("input", { type: "checkbox", checked: specials, "data-choice": "specials",
        change: (/** @type {Event} */ event) =>
          store.set({ specials: /** @type {HTMLInputElement} */ (event.target).checked }) }),
      say("specials")),
  ];
}

/**
 * Which ribbons the overview draws.
 * @param {Store} store
 */
function threshold(store) {
  const choose = (/** @type {Event} */ event) =>
    store.set({ threshold: Number(/** @type {HTMLSelectElement} */ (event.target).value) });
  return h("select", { "aria-label": say("threshold"), "data-choice": "threshold", change: choose },
    [0, 0.25, 0.1, 0.03].map((value) => h("option", { value, selected: store.state.threshold === value },
      value === 0 ? say("strongest") : say("ribbons_from", { weight: value }))));
}

/**
 * @param {string} label
 * @param {HTMLElement[]} options
 */
function group(label, options) {
  return h("div", { class: "segments", role: "group", "aria-label": label }, options);
}

/**
 * @param {string} label
 * @param {boolean} chosen
 * @param {string} choice
 * @param {() => void} click
 * @param {string} [whole] the name of a label that is short for want of room
 */
function option(label, chosen, choice, click, whole) {
  return h("button", { "aria-pressed": chosen, "data-choice": choice, "aria-label": whole, title: whole, click }, label);
}

/**
 * Show a map alone or, with Shift or Ctrl or while several are wanted, beside those shown.
 * @param {Store} store
 * @param {number | null} layer
 * @param {number | null} head
 * @param {MouseEvent} event
 */
function pick(store, layer, head, event) {
  const { state } = store;
  if (layer === null || head === null || !(state.many || event.shiftKey || event.ctrlKey || event.metaKey)) {
    return void store.set({ layer, head, several: [] });
  }
  const alone = state.layer === null || state.head === null ? [] : [{ layer: state.layer, head: state.head }];
  const now = state.several.length > 0 ? state.several : alone;
  const others = now.filter((each) => each.layer !== layer || each.head !== head);
  chooseHeads(store, others.length < now.length ? others : [...now.slice(1 - MOST_HEADS), { layer, head }]);
}

/**
 * Show these heads at once; a single one as a map of its own.
 * @param {Store} store
 * @param {{layer: number, head: number}[]} heads
 */
export function chooseHeads(store, heads) {
  const last = heads.at(-1) ?? { layer: null, head: null };
  store.set({ ...last, several: heads.length > 1 ? heads : [] });
}

/**
 * Thumbnails of all heads, one row per layer; none if there is only one map.
 * @param {Store} store
 * @param {Look} look
 */
function chooser(store, look) {
  const { kind, unit, specials } = store.state;
  const { layers, heads } = headsOf(look, kind);
  if (layers * heads <= 1) return [];
  const sides = sidesOf(look, kind);
  const rows = unitsOf(sides.rows, unit, specials);
  const columns = unitsOf(sides.columns, unit, specials);
  const whole = say(kind === "cross" && look.alignment ? "alignment" : "average");
  const one = (/** @type {number | null} */ layer, /** @type {number | null} */ head) => {
    const map = mapOf(look, { kind, layer, head });
    const { several } = store.state;
    const number = several.findIndex((each) => each.layer === layer && each.head === head);
    const chosen = several.length > 0 ? number >= 0 : store.state.layer === layer && store.state.head === head;
    const name = layer === null ? whole : say("layer_head", { layer: layer + 1, head: (head ?? 0) + 1 });
    return h("button",
      { class: number < 0 ? "thumb" : `thumb head-${number + 1}`, "aria-pressed": chosen, "aria-label": name, title: name,
        "data-choice": `map-${layer}-${head}`, click: (/** @type {MouseEvent} */ event) => pick(store, layer, head, event) },
      miniature(map ? gather(map, rows, columns) : [], THUMB));
  };
  const many = h("label", { class: "check", title: say("several_keys") }, h("input", { type: "checkbox",
    checked: store.state.many, "data-choice": "many", change: (/** @type {Event} */ event) =>
      store.set({ many: /** @type {HTMLInputElement} */ (event.target).checked }) }), say("several_heads"));
  const lines = [h("div", { class: "layer" }, one(null, null), h("span", { class: "hint" }, whole)), many];
  for (let layer = 0; layer < layers; layer++) {
    const maps = Array.from({ length: heads }, (_, head) => one(layer, head));
    lines.push(h("div", { class: "layer" },
      h("span", { class: "layer-name", title: say("layer", { number: layer + 1 }) }, layer + 1), maps));
  }
  return lines;
}
