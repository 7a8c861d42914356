/** A caption and its image: the attention of the current word over the image, and small that of every word. */

import { toggleBan } from "../changes/actions.js";
import { commit, preview } from "../changes/hand.js";
import { mapOf, unitAt, unitsOf } from "../data/record.js";
import { NOWHERE, UNCHANGED, changeOf, focused, shown } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { cellName } from "../drawing/label.js";
import { weight as written } from "../drawing/number.js";
import { say } from "../language/language.js";
import { drawCells, lightCells, markCells, overlayChoice, smallCells, tellGrid } from "./cells.js";

const SMALL = 64; // pixels of a word's own picture
const MOST_TOLD = 3; // cells named in a word's accessible label

/**
 * @typedef {import("../data/store.js").Store} Store
 * @typedef {import("../data/record.js").Look} Look
 * @typedef {import("../data/record.js").Unit} Unit
 */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 */
export function mountPicture(place, store) {
  const frame = h("div", { class: "picture-frame" });
  const caption = h("p", { class: "sentence", dir: "auto" });
  const note = h("div", {});
  const hint = h("p", { class: "hint" });
  const show = h("div", { class: "telling-side" }, caption, note);
  place.append(h("div", { class: "row picture-head" }, h("h2", {}, say("picture")), overlayChoice(store)), hint, h("div", { class: "picture" }, frame, show));
  brushing(frame, store);
  const depends = /** @type {const} */ (["step", "layer", "head", "unit", "specials", "overlay"]);
  store.listen((state, before) => {
    const look = shown(state);
    const image = look?.image;
    place.hidden = !image;
    if (!look || !image) return;
    const fresh = look !== shown(before);
    if (!fresh && depends.every((name) => state[name] === before[name])) return;
    const units = unitsOf(look.target, state.unit, state.specials);
    const map = mapOf(look, { ...state, kind: "cross" });
    const weights = map && units.map((unit) => mean(unit.pieces.map((piece) => map[piece] ?? [])));
    if (fresh || depends.some((name) => name !== "step" && state[name] !== before[name])) {
      hint.textContent = say("picture_hint") + (state.live ? " " + say("picture_ban") : "");
      drawPicture(frame, store, look);
      replace(note, tellGrid(image));
      const held = caption.contains(document.activeElement) ? [...caption.children].indexOf(/** @type {Element} */ (document.activeElement)) : -1;
      replace(caption, ...units.map((unit, t) => word(store, unit, weights && smallCells(image, image, weights[t], state.overlay, SMALL))));
      /** @type {HTMLElement | undefined} */ (caption.children[held])?.focus();
    }
    mark(frame, caption, units, look, state, weights);
  });
}

/**
 * @param {HTMLElement} frame
 * @param {Store} store
 * @param {Look} look
 */
function drawPicture(frame, store, look) {
  const image = /** @type {import("../data/record.js").Picture} */ (look.image);
  const held = frame.contains(document.activeElement) ? document.activeElement?.getAttribute("data-position") : null;
  const { ban } = changeOf(store.state);
  const name = (/** @type {number} */ position) =>
    say(ban.includes(position) ? "allow_word" : "ban_word", { word: cellName(position, image.columns) });
  const choose = store.state.live
    ? (/** @type {number} */ position) => toggleBan(store, { label: "", pieces: [position], special: false })
    : undefined;
  const picture = drawCells(image, image, { label: say("picture"), name, choose });
  markCells(picture, ban, "banned");
  replace(frame, picture);
  if (held) /** @type {SVGElement | null} */ (picture.querySelector(`[data-position="${held}"]`))?.focus();
}

/**
 * Brush over cells to mask them all; the caption follows while the brush is down.
 * @param {HTMLElement} frame
 * @param {Store} store
 */
function brushing(frame, store) {
  /** @type {Set<number> | null} the cells under the stroke */
  let stroke = null;
  const cellAt = (/** @type {Element | null} */ place) =>
    place?.closest('.veil[role="button"]')?.getAttribute("data-position") ?? null;
  frame.addEventListener("pointerdown", (event) => {
    const cell = cellAt(/** @type {Element} */ (event.target));
    stroke = cell === null || event.button !== 0 ? null : new Set([Number(cell)]);
  });
  document.addEventListener("pointermove", (event) => {
    if (stroke === null) return;
    const cell = cellAt(document.elementFromPoint(event.clientX, event.clientY));
    if (cell === null || stroke.has(Number(cell))) return;
    stroke.add(Number(cell));
    const before = focused(store.state)?.history.at(-1)?.change ?? UNCHANGED;
    const ban = [...new Set([...before.ban, ...stroke])].sort((a, b) => a - b);
    preview(store, { ...before, prefix: [], ban });
  });
  const release = () => {
    if (stroke !== null && stroke.size > 1) commit(store); // one cell is a click
    stroke = null;
  };
  document.addEventListener("pointerup", release);
  document.addEventListener("pointercancel", release);
}

/**
 * @param {Store} store
 * @param {Unit} unit
 * @param {SVGElement | null} small
 */
function word(store, unit, small) {
  const look = () => {
    if (!store.state.playing) store.set({ ...NOWHERE, step: unit.pieces[0], lit: true });
  };
  return h("button", { class: "word target", pointerenter: look, focus: look, click: look }, small, h("bdi", {}, unit.label));
}

/**
 * Mark the current word, and show its attention on the image.
 * @param {HTMLElement} frame
 * @param {HTMLElement} caption
 * @param {Unit[]} units
 * @param {Look} look
 * @param {import("../data/store.js").State} state
 * @param {number[][] | null} weights of each unit
 */
function mark(frame, caption, units, look, state, weights) {
  const row = state.lit ? unitAt(units, state.step) : -1;
  [...caption.children].forEach((each, t) => {
    each.classList.toggle("here", t === row);
    if (t === row) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
    each.setAttribute("aria-label", spoken(look, units[t], weights?.[t] ?? []));
  });
  lightCells(/** @type {SVGElement} */ (/** @type {unknown} */ (frame.firstElementChild)), (row < 0 ? null : weights?.[row]) ?? null, state.overlay);
}

/** @param {number[][]} rows */
function mean(rows) {
  return rows[0].map((_, p) => rows.reduce((sum, row) => sum + (row[p] ?? 0), 0) / rows.length);
}

/**
 * "“star” looked at row 2, column 3 0.61, …"
 * @param {Look} look
 * @param {Unit} unit
 * @param {number[]} weights
 */
function spoken(look, unit, weights) {
  const columns = look.image?.columns ?? 1;
  const places = weights
    .map((weight, position) => ({ weight, position }))
    .sort((one, other) => other.weight - one.weight)
    .slice(0, MOST_TOLD)
    .map(({ weight, position }) => `${cellName(position, columns)} ${written(weight)}`);
  return say("looks_at", { word: unit.label, places: places.join("; ") });
}
