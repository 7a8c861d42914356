/** Two models and one sentence: the words of both translations over one line of source words, and the gold links. */

import { common } from "../data/diff.js";
import { gather, hasAttention, labelsOf, mapOf, unitsOf } from "../data/record.js";
import { lookOf, shown } from "../data/store.js";

/**
 * @typedef {import("../data/record.js").Look} Look
 * @typedef {import("../data/record.js").Unit} Unit
 * @typedef {{row: number, column: number}} Gold
 * @typedef {{name: string, look: Look, rows: Unit[], columns: Unit[], weights: number[][] | null, same: Set<number>,
 *   gold: Gold[], agree: {count: number, all: number} | null}} Band one translation: `same` are the rows that the other
 *   one has too; `weights` are null without attention; `agree`: rows whose strongest weight is on a gold link
 * @typedef {{source: Unit[], bands: [Band, Band], pairs: [number, number][]}} Compared `pairs`: equal words of both
 */

/**
 * The opened model and the one beside it; null while one of them has no translation of this sentence.
 * @param {import("../data/store.js").State} state
 * @returns {Compared | null}
 */
export function compared(state) {
  const [name, other] = [state.focus, state.beside];
  const one = shown(state);
  const two = other === null ? null : lookOf(state, other);
  if (name === null || other === null || name === other || !one || !two) return null;
  if (one.image || two.image || one.source.text !== two.source.text || state.reveal !== null) return null;
  const by = same(labelsOf(one.source), labelsOf(two.source)) ? "unit" : "word";
  const sides = [one, two].map((look) => wordsOf(look.source, by));
  const ends = [one, two].some((look, n) => endMatters(look, sides[n]));
  const columns = sides.map((units) => units.filter((unit) => ends || !unit.special));
  const rows = [one, two].map((look) => unitsOf(look.target, "words", false));
  const pairs = common(rows[0].map((unit) => unit.label), rows[1].map((unit) => unit.label));
  const band = (/** @type {string} */ named, /** @type {Look} */ look, /** @type {0 | 1} */ n) => {
    const map = mapOf(look, { kind: "cross", layer: null, head: null });
    const weights = map === null || !hasAttention(look) ? null : gather(map, rows[n], columns[n]);
    const gold = weights === null ? { sure: [], possible: [] } : goldOf(look, rows[n], columns[n]);
    return { name: named, look, rows: rows[n], columns: columns[n], weights, same: new Set(pairs.map((pair) => pair[n])),
      gold: gold.sure, agree: weights && gold.sure.length > 0 ? agreement(weights, gold) : null };
  };
  return { source: columns[0], bands: [band(name, one, 0), band(other, two, 1)], pairs };
}

/**
 * @param {string[]} one
 * @param {string[]} other
 */
function same(one, other) {
  return one.length === other.length && one.every((label, index) => label === other[index]);
}

/**
 * The words of a sentence by units, or by white space where the vocabularies of two models split it in different units.
 * @param {import("../data/record.js").Side} side
 * @param {"unit" | "word"} by
 * @returns {Unit[]}
 */
function wordsOf(side, by) {
  if (by === "unit") return unitsOf(side, "words", true);
  /** @type {Unit[]} */
  const units = side.words.map((label) => ({ label, pieces: [], special: false }));
  side.pieces.forEach((piece, index) => {
    if (piece.word === null) units.push({ label: piece.text, pieces: [index], special: true });
    else units[piece.word]?.pieces.push(index);
  });
  return units;
}

/**
 * Whether a special token holds the largest weight of a row.
 * @param {Look} look
 * @param {Unit[]} columns
 */
function endMatters(look, columns) {
  const map = mapOf(look, { kind: "cross", layer: null, head: null });
  if (map === null) return false;
  return gather(map, unitsOf(look.target, "words", false), columns).some((row) => columns[best(row)]?.special);
}

/**
 * The gold links between shown words; the reference's words are found in the translation.
 * @param {Look} look
 * @param {Unit[]} rows
 * @param {Unit[]} columns
 * @returns {{sure: Gold[], possible: Gold[]}}
 */
function goldOf(look, rows, columns) {
  if (!look.gold) return { sure: [], possible: [] };
  const told = new Map(common(look.gold.target.split(/\s+/), look.target.words));
  const [targets, sources] = [mainUnits(look.target, rows), mainUnits(look.source, columns)];
  const placed = (/** @type {[number, number][]} */ links) => links.flatMap(([source, target]) => {
    const [row, column] = [targets.get(told.get(target) ?? -1), sources.get(source)];
    return row === undefined || column === undefined ? [] : [{ row, column }];
  });
  return { sure: placed(look.gold.sure), possible: placed(look.gold.possible) };
}

/**
 * For each white-space word its unit without punctuation.
 * @param {import("../data/record.js").Side} side
 * @param {Unit[]} units
 * @returns {Map<number, number>}
 */
function mainUnits(side, units) {
  const found = new Map();
  units.forEach((unit, index) => {
    const word = side.pieces[unit.pieces[0]]?.word ?? null;
    const known = found.get(word);
    if (word !== null && (known === undefined || units[known].label.length < unit.label.length)) found.set(word, index);
  });
  return found;
}

/**
 * @param {number[][]} weights
 * @param {{sure: Gold[], possible: Gold[]}} gold
 */
function agreement(weights, { sure, possible }) {
  const linked = [...new Set(sure.map((link) => link.row))];
  const right = linked.filter((t) => possible.some((link) => link.row === t && link.column === best(weights[t])));
  return { count: right.length, all: linked.length };
}

/** @param {number[]} row */
export function best(row) {
  return row.indexOf(Math.max(...row));
}

/**
 * The words of the other translation that belong to a word: the same word, else those that attend to the same source word.
 * @param {Compared} both
 * @param {0 | 1} band
 * @param {number} row
 */
export function counterparts({ bands, pairs }, band, row) {
  const equal = pairs.filter((pair) => pair[band] === row).map((pair) => pair[band === 0 ? 1 : 0]);
  const [own, other] = [bands[band].weights, bands[band === 0 ? 1 : 0].weights];
  if (equal.length > 0 || own === null || other === null) return equal;
  return other.flatMap((weights, t) => (best(weights) === best(own[row]) ? [t] : []));
}
