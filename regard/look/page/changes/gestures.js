/** Weight edits of a cell, by button, key or drag. */

import { clamp, weight } from "../drawing/number.js";
import { say } from "../language/language.js";
import { edit, toggleBan } from "./actions.js";

const WHOLE_DRAG = 140; // pixels that raise a weight from 0 to 1

/**
 * @typedef {import("../data/table.js").Table} Table
 * @typedef {import("../data/record.js").Edit} Edit
 */

/**
 * The edits that set a cell's weight: split over the source pieces of the word, equal for each of its target pieces.
 * @param {Table} table
 * @param {number} row
 * @param {number} column
 * @param {number} value
 * @returns {Edit[]}
 */
export function weightEdits(table, row, column, value) {
  const { pieces } = table.columns[column];
  return table.rows[row].pieces.flatMap((step) =>
    pieces.map((position) => ({ ...table.view, step, position, replace: round(value / pieces.length) })),
  );
}

/**
 * The edits that move a row's whole weight to one cell.
 * @param {Table} table
 * @param {number} row
 * @param {number} column
 * @returns {Edit[]}
 */
export function gatherEdits(table, row, column) {
  const whole = table.weights[row].reduce((sum, value) => sum + value, 0);
  const cleared = table.rows[row].pieces.map((step) => ({ ...table.view, step, position: null, replace: 0 }));
  return [...cleared, ...weightEdits(table, row, column, Math.min(Math.max(whole, 0), 1) || 1)];
}

/** @param {number} value */
function round(value) {
  return Number(value.toFixed(4));
}

/**
 * Handle a key on a cell; false if the key is not used.
 * @param {string} key
 * @param {import("../data/store.js").Store} store
 * @param {Table} table
 * @param {number} row
 * @param {number} column
 */
export function change(key, store, table, row, column) {
  const value = table.weights[row][column];
  const set = (/** @type {number} */ wanted) => edit(store, weightEdits(table, row, column, clamp(wanted, 0, 1)));
  if (key === "+" || key === "=") set(value + 0.1);
  else if (key === "-" || key === "−") set(value - 0.1);
  else if (key === "0" || key === "Delete" || key === "Backspace") set(0);
  else if (key === "m" || key === "M") edit(store, gatherEdits(table, row, column));
  else if ((key === "b" || key === "B") && table.view.kind !== "decoder-self") toggleBan(store, table.columns[column]);
  else return false;
  return true;
}

/**
 * Select by pointing and clicking; raise by dragging up, and move by dragging sideways.
 * @param {SVGElement} picture
 * @param {{table: Table, cell: number, cells: SVGElement[][], select: (row: number, column: number) => void}} matrix
 * @param {import("../data/store.js").Store} store
 */
export function drag(picture, matrix, store) {
  /** @type {{row: number, column: number, x: number, y: number, moved: boolean} | null} */
  let held = null;
  const cellOf = (/** @type {EventTarget | null} */ target) => {
    const cell = /** @type {Element | null} */ (target)?.closest?.(".cell");
    if (!cell) return null;
    return { row: Number(cell.getAttribute("data-row")), column: Number(cell.getAttribute("data-column")) };
  };
  picture.addEventListener("pointerover", (event) => {
    const cell = cellOf(event.target);
    if (!cell || held || store.state.playing || store.state.pinned || event.pointerType === "touch") return;
    if (!store.state.held) store.set({ step: matrix.table.rows[cell.row].pieces[0], lit: true, from: null });
  });
  picture.addEventListener("pointerleave", () => {
    if (!store.state.held && !store.state.playing && !held) store.set({ lit: false });
  });
  picture.addEventListener("pointerdown", (event) => {
    const cell = cellOf(event.target);
    if (!cell || event.button !== 0) return;
    // a finger scrolls, except from the cell that is already chosen
    const chosen = matrix.cells[cell.row][cell.column].classList.contains("here");
    matrix.select(cell.row, cell.column);
    matrix.cells[cell.row][cell.column].focus({ preventScroll: true });
    if (!store.state.live || matrix.table.several || (event.pointerType === "touch" && !chosen)) return;
    held = { ...cell, x: event.clientX, y: event.clientY, moved: false };
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointermove", (event) => {
    if (!held) return;
    if (Math.hypot(event.clientX - held.x, event.clientY - held.y) > 5) held.moved = true;
    if (held.moved) preview(matrix, held, outcome(matrix, held, event));
  });
  picture.addEventListener("pointerup", (event) => {
    if (held?.moved) edit(store, edits(matrix, held, outcome(matrix, held, event)));
    held = null;
  });
  picture.addEventListener("pointercancel", () => {
    held = null;
  });
}

/**
 * The target of a drag: the same column with another weight, or another column of the row.
 * @param {{table: Table, cell: number}} matrix
 * @param {{row: number, column: number, x: number, y: number}} held
 * @param {PointerEvent} event
 */
function outcome({ table, cell }, held, event) {
  const aside = Math.round((event.clientX - held.x) / cell);
  const column = clamp(held.column + aside, 0, table.columns.length - 1);
  const raised = table.weights[held.row][held.column] - (event.clientY - held.y) / WHOLE_DRAG;
  return { column, value: clamp(raised, 0, 1) };
}

/**
 * @param {{table: Table}} matrix
 * @param {{row: number, column: number}} held
 * @param {{column: number, value: number}} end
 * @returns {Edit[]}
 */
function edits({ table }, held, end) {
  if (end.column === held.column) return weightEdits(table, held.row, held.column, end.value);
  const row = table.weights[held.row];
  return [
    ...weightEdits(table, held.row, held.column, 0),
    ...weightEdits(table, held.row, end.column, clamp(row[held.column] + row[end.column], 0, 1)),
  ];
}

/**
 * Preview the weights during a drag.
 * @param {{table: Table, cells: SVGElement[][]}} matrix
 * @param {{row: number, column: number}} held
 * @param {{column: number, value: number}} end
 */
function preview({ table, cells }, held, end) {
  const row = [...table.weights[held.row]];
  if (end.column === held.column) row[held.column] = end.value;
  else [row[end.column], row[held.column]] = [row[end.column] + row[held.column], 0];
  cells[held.row].forEach((cell, j) => {
    cell.querySelector(".above")?.setAttribute("fill-opacity", clamp(row[j], 0, 1).toFixed(3));
    cell.classList.toggle("here", j === end.column);
    const names = { row: table.rows[held.row].label, column: table.columns[j].label };
    cell.setAttribute("aria-label", say("cell", { ...names, weight: weight(row[j]) }));
  });
}
