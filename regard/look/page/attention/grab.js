/** Take a ribbon by its end and pull it to another source word; the translation follows while it is in hand. */

import { weightEdits } from "../changes/gestures.js";
import { commit, letGo, preview, withEdits } from "../changes/hand.js";
import { clamp } from "../drawing/number.js";

const REACH = 90; // pixels around a word within which it catches the ribbon

/**
 * @typedef {import("./lines.js").Held} Held
 * @typedef {import("../data/table.js").Table} Table
 */

/**
 * @param {import("./ribbons.js").Scene} scene
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/table.js").Tables} tables
 * @param {() => void} redraw
 * @returns {{held: Held | null}}
 */
export function grabbing(scene, store, tables, redraw) {
  const { stage, drawing, above } = scene;
  /** @type {{held: Held | null}} */
  const hand = { held: null };
  /** @type {Table | null} the map when the ribbon was taken */
  let base = null;

  drawing.addEventListener("pointerdown", (event) => {
    const grip = /** @type {Element} */ (event.target).closest(".grip, .knob");
    if (!grip || event.button !== 0 || !tables.current || !store.state.live) return;
    event.preventDefault();
    base = tables.current;
    const [row, column] = [Number(grip.getAttribute("data-row")), Number(grip.getAttribute("data-column"))];
    hand.held = { row, column, to: column, at: inside(stage, event) };
    stage.setPointerCapture(event.pointerId);
    stage.classList.add("pulling");
    store.set({ step: base.rows[row].pieces[0], lit: true, from: null, playing: false });
    redraw();
  });
  stage.addEventListener("pointermove", (event) => {
    const { held } = hand;
    if (!held || !base) return;
    held.at = inside(stage, event);
    const to = nearest(above, event) ?? held.column;
    if (to !== held.to) {
      held.to = to;
      const change = to === held.column ? null : withEdits(store, moveEdits(base, held.row, held.column, to));
      if (change) preview(store, change);
      else letGo(store);
    }
    redraw();
  });
  const release = (/** @type {boolean} */ keep) => {
    const { held } = hand;
    if (!held) return;
    hand.held = base = null;
    stage.classList.remove("pulling");
    if (keep && held.to !== held.column) commit(store);
    else letGo(store);
    store.set({ lit: false });
    redraw();
  };
  stage.addEventListener("pointerup", () => release(true));
  stage.addEventListener("pointercancel", () => release(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") release(false);
  });
  return hand;
}

/**
 * The edits that move a weight of a row to another column.
 * @param {Table} table
 * @param {number} row
 * @param {number} column
 * @param {number} to
 */
export function moveEdits(table, row, column, to) {
  const weights = table.weights[row];
  return [
    ...weightEdits(table, row, column, 0),
    ...weightEdits(table, row, to, clamp(weights[column] + weights[to], 0, 1)),
  ];
}

/**
 * @param {HTMLElement} stage
 * @param {PointerEvent} event
 */
function inside(stage, event) {
  const frame = stage.getBoundingClientRect();
  return { x: event.clientX - frame.x + stage.scrollLeft, y: event.clientY - frame.y + stage.scrollTop };
}

/**
 * The word that the pointer is closest to.
 * @param {HTMLElement} above
 * @param {PointerEvent} event
 */
function nearest(above, event) {
  let best = null;
  let shortest = REACH;
  [...above.children].forEach((word, j) => {
    const box = word.getBoundingClientRect();
    const aside = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
    const away = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
    const distance = Math.hypot(aside, away);
    if (distance < shortest) [best, shortest] = [j, distance];
  });
  return best;
}

/**
 * Mark the word that would get the ribbon.
 * @param {HTMLElement} above
 * @param {Held | null} held
 */
export function glow(above, held) {
  const to = held === null || held.to === held.column ? -1 : held.to;
  [...above.children].forEach((word, j) => word.classList.toggle("glow", j === to));
}
