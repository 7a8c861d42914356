/** The panel that edits the weight of the current cell. */

import { unitAt } from "../data/record.js";
import { changeOf } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { weight } from "../drawing/number.js";
import { say } from "../language/language.js";
import { edit, toggleBan } from "./actions.js";
import { gatherEdits, weightEdits } from "./gestures.js";
import { commit, preview, withEdits } from "./hand.js";

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/table.js").Tables} tables
 */
export function mountWeight(place, store, tables) {
  const body = h("div", {});
  place.append(body);
  const draw = () => {
    const table = tables.current;
    const row = unitAt(table?.rows ?? [], store.state.step);
    const column = unitAt(table?.columns ?? [], store.state.position);
    place.hidden = table === null || table.several !== null || !store.state.live || row < 0 || column < 0 || !store.state.pinned;
    if (table === null || place.hidden) return void replace(body);
    replace(body, ...controls(store, table, row, column));
  };
  tables.listen(() => {
    // while the slider is in hand it stays; its model answers with new maps all the time
    if (!(body.contains(document.activeElement) && inHand(store))) draw();
  });
  store.listen((state, before) => {
    const depends = /** @type {const} */ (["step", "position", "pinned"]);
    if (depends.some((name) => state[name] !== before[name])) draw();
  });
}

/** @param {import("../data/store.js").Store} store */
function inHand({ state }) {
  return Boolean(state.focus !== null && state.entries[state.focus]?.preview);
}

/**
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/table.js").Table} table
 * @param {number} row
 * @param {number} column
 */
function controls(store, table, row, column) {
  const value = table.weights[row][column];
  const set = (/** @type {number} */ wanted) => edit(store, weightEdits(table, row, column, Math.min(wanted, 1)));
  const number = h("output", { class: "number" }, weight(value));
  const slider = /** @type {HTMLInputElement} */ (
    h("input", { type: "range", min: 0, max: 1, step: 0.01, value: value.toFixed(2), "aria-label": say("weight") })
  );
  slider.addEventListener("input", () => {
    number.textContent = weight(Number(slider.value));
    const change = withEdits(store, weightEdits(table, row, column, Number(slider.value)));
    if (change) preview(store, change);
  });
  slider.addEventListener("change", () => commit(store));
  const unit = table.columns[column];
  const banned = unit.pieces.every((piece) => changeOf(store.state).ban.includes(piece));
  const action = (/** @type {string} */ name, /** @type {() => void} */ click) =>
    h("button", { class: "quiet", click }, name);
  return [
    h("h3", { class: "pair" }, h("bdi", {}, table.rows[row].label), " ← ", h("bdi", {}, unit.label)),
    h("div", { class: "slider" }, slider, number),
    h("div", { class: "buttons" },
      action(say("mute"), () => set(0)),
      action(say("double"), () => set(value * 2)),
      action(say("move_here"), () => edit(store, gatherEdits(table, row, column))),
      table.view.kind !== "decoder-self" &&
        action(say(banned ? "allow_word" : "ban_word", { word: unit.label }), () => toggleBan(store, unit))),
    h("p", { class: "hint" }, where(table), " ", say("exact")),
  ];
}

/** @param {import("../data/table.js").Table} table */
function where({ view, look }) {
  const all = look.attention[view.kind] ?? [];
  if (all.length * (all[0]?.length ?? 0) <= 1) return "";
  if (view.layer === null) return say("all_heads");
  if (view.head === null) return say("this_layer", { layer: view.layer + 1 });
  return say("this_head", { layer: view.layer + 1, head: view.head + 1 });
}
