/** The shown map between words or pieces: computed once for ribbons and matrix. */

import { weight } from "../drawing/number.js";
import { say } from "../language/language.js";
import { gather, mapOf, measuresOf, nameOf, sidesOf, unitsOf } from "./record.js";
import { shown } from "./store.js";

/**
 * @typedef {import("./record.js").Look} Look
 * @typedef {import("./record.js").Unit} Unit
 * @typedef {{look: Look, view: import("./record.js").View, rows: Unit[], columns: Unit[], weights: number[][],
 *   measures: {entropy: number[], coverage: number[]} | null, several: One[] | null}} Table `several`: maps of several heads,
 *   to be shown at once
 * @typedef {{layer: number, head: number, weights: number[][]}} One
 * @typedef {{current: Table | null, listen: (listener: (table: Table | null) => void) => void}} Tables
 */

const DEPENDS_ON = /** @type {const} */ ([
  "entries", "focus", "unit", "specials", "kind", "layer", "head", "several", "moment", "peek",
]);

/**
 * Notify the listeners when the shown map changes.
 * @param {import("./store.js").Store} store
 * @returns {Tables}
 */
export function followTable(store) {
  /** @type {((table: Table | null) => void)[]} */
  const listeners = [];
  const tables = {
    /** @type {Table | null} */
    current: null,
    /** @param {(table: Table | null) => void} listener */
    listen: (listener) => void listeners.push(listener),
  };
  store.listen((state, before) => {
    if (DEPENDS_ON.every((name) => state[name] === before[name])) return;
    const next = tableOf(state);
    if (same(next, tables.current, state, before)) return;
    tables.current = next;
    for (const listener of listeners) listener(tables.current);
  });
  return tables;
}

/**
 * The map of a look in the current view; by default of the shown one.
 * @param {import("./store.js").State} state
 * @param {Look | null} [look]
 * @returns {Table | null}
 */
export function tableOf(state, look = shown(state)) {
  if (look === null || look.image) return null; // an image has no source words
  const view = { kind: state.kind, layer: state.layer, head: state.head };
  const past = state.moment === null ? null : (look.over_time?.[state.moment] ?? null);
  const moment = past === null ? look : { ...look, target: past.target, alignment: past.alignment, steps: [] };
  const map = past === null ? mapOf(look, view) : past.alignment;
  if (map === null) return null;
  const sides = sidesOf(moment, view.kind);
  const rows = unitsOf(sides.rows, state.unit, state.specials);
  const columns = columnsOf(sides.columns, state, rows, map);
  const name = past === null ? nameOf(look, view) : `moment/${state.moment}`;
  const several = past === null ? severalOf(state, look, rows, columns) : null;
  const measures = several ? null : measuresOf(look, name, state.unit, rows, columns);
  return { look: moment, view, rows, columns, weights: gather(map, rows, columns), measures, several };
}

/**
 * @param {import("./store.js").State} state
 * @param {Look} look
 * @param {Unit[]} rows
 * @param {Unit[]} columns
 * @returns {One[] | null}
 */
function severalOf({ several, kind }, look, rows, columns) {
  const known = several.filter(({ layer, head }) => look.attention[kind]?.[layer]?.[head]);
  if (known.length < 2) return null;
  return known.map(({ layer, head }) => ({ layer, head, weights: gather(look.attention[kind][layer][head], rows, columns) }));
}

/**
 * The columns; a hidden special token is among them where it holds the largest weight of a row.
 * @param {import("./record.js").Side} side
 * @param {import("./store.js").State} state
 * @param {Unit[]} rows
 * @param {number[][]} map
 */
function columnsOf(side, { unit, specials }, rows, map) {
  const all = unitsOf(side, unit, true);
  if (specials) return all;
  const weights = gather(map, rows, all);
  const best = new Set(weights.map((row) => row.indexOf(Math.max(...row))));
  return all.filter((each, j) => !each.special || best.has(j));
}

/**
 * Whether a state change (another card, the busy flag) leaves the map unchanged.
 * @param {Table | null} next
 * @param {Table | null} current
 * @param {import("./store.js").State} state
 * @param {import("./store.js").State} before
 */
function same(next, current, state, before) {
  if (next === null || current === null) return next === current;
  const settings = DEPENDS_ON.every((name) => name === "entries" || state[name] === before[name]);
  return settings && shown(state) === shown(before);
}

/**
 * "“chat” → “cat”: 0.93"; of several heads each with its weight.
 * @param {Table} table
 * @param {number} t
 * @param {number} j
 */
export function cellLabel({ rows, columns, weights, several }, t, j) {
  const each = several?.map((one) => `${say("layer_head", { layer: one.layer + 1, head: one.head + 1 })} ${weight(one.weights[t][j])}`);
  return say("cell", { row: rows[t].label, column: columns[j].label, weight: each?.join("; ") ?? weight(weights[t][j]) });
}
