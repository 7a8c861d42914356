/** The matrix of a long sentence, painted on a canvas: thousands of cells cost as much as one picture. */

import { change } from "../changes/gestures.js";
import { unitAt } from "../data/record.js";
import { cellLabel } from "../data/table.js";
import { h } from "../drawing/dom.js";
import { measure, short } from "../drawing/label.js";
import { clamp } from "../drawing/number.js";
import { say } from "../language/language.js";

const [SMALLEST, LARGEST] = [9, 16]; // pixels of a cell

/** @typedef {import("../data/table.js").Table} Table */

/** One painted matrix: pointing shows a row, a click chooses a cell, the keys of the drawn matrix work as there. */
export class Dense {
  /**
   * @param {Table} table
   * @param {import("../data/store.js").Store} store
   * @param {number} room in pixels
   */
  constructor(table, store, room) {
    this.table = table;
    this.store = store;
    this.left = Math.min(110, Math.max(...table.rows.map((unit) => measure(unit.label)))) + 10;
    this.top = Math.min(90, Math.max(...table.columns.map((unit) => measure(unit.label))) * 0.71) + 14;
    this.cell = Math.floor(clamp((room - this.left - 40) / table.columns.length, SMALLEST, LARGEST));
    this.sharp = Math.max(1, globalThis.devicePixelRatio ?? 1);
    const [width, height] = [this.left + table.columns.length * this.cell + 40, this.top + table.rows.length * this.cell + 4];
    const size = { width: Math.round(width * this.sharp), height: Math.round(height * this.sharp) };
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { ...size, class: "matrix dense", tabindex: 0,
      role: "application", "aria-label": say("matrix_label"), "aria-describedby": "matrix-hint" }));
    this.canvas.style.setProperty("width", `${width}px`);
    this.canvas.style.setProperty("height", `${height}px`);
    [this.rowMark, this.cellMark] = ["dense-row", "dense-cell"].map((key) => h("div", { class: key, hidden: true }));
    this.picture = h("div", { class: "dense-frame" }, this.canvas, this.rowMark, this.cellMark);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.store.state.held || this.store.set({ lit: false }));
    this.canvas.addEventListener("pointerdown", (event) => this.choose(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("repaint", () => this.paint());
    this.paint();
  }

  /** All cells and labels, once; what is selected is marked by boxes over it. */
  paint() {
    const pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    const style = getComputedStyle(document.documentElement);
    const { rows, columns, weights } = this.table;
    pen.setTransform(this.sharp, 0, 0, this.sharp, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = style.getPropertyValue("--cell");
    pen.fillRect(this.left, this.top, columns.length * this.cell, rows.length * this.cell);
    const { several } = this.table;
    const maps = several?.map((one, head) => ({ weights: one.weights, colour: `--head-${head + 1}` })) ?? [{ weights, colour: "--accent" }];
    const wide = (this.cell - 1) / maps.length; // of several heads each has a stripe of the cell
    maps.forEach((map, stripe) => {
      pen.fillStyle = style.getPropertyValue(map.colour);
      map.weights.forEach((row, t) => row.forEach((value, j) => {
        if (value < 0.01) return;
        pen.globalAlpha = Math.min(value, 1);
        pen.fillRect(this.left + j * this.cell + stripe * wide, this.top + t * this.cell, wide, this.cell - 1);
      }));
    });
    pen.globalAlpha = 1;
    pen.fillStyle = style.getPropertyValue("--ink");
    pen.textBaseline = "middle";
    const every = Math.ceil(11 / this.cell); // labels that would overlap are left out; the current one is always written
    pen.textAlign = "right";
    rows.forEach((unit, t) => t % every === 0 && pen.fillText(short(unit.label), this.left - 6, this.top + (t + 0.5) * this.cell));
    pen.textAlign = "left";
    const sparse = Math.ceil(16 / this.cell); // slanted labels need more room
    columns.forEach((unit, j) => j % sparse === 0 && this.slanted(pen, short(unit.label), j));
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {string} text
   * @param {number} j
   */
  slanted(pen, text, j) {
    pen.save();
    pen.translate(this.left + (j + 0.6) * this.cell, this.top - 6);
    pen.rotate(-Math.PI / 4);
    pen.fillText(text, 0, 0);
    pen.restore();
  }

  mark() {
    const row = unitAt(this.table.rows, this.store.state.step);
    const column = unitAt(this.table.columns, this.store.state.position);
    this.rowMark.hidden = row < 0;
    this.cellMark.hidden = row < 0 || column < 0;
    const y = this.top + row * this.cell - 1;
    put(this.rowMark, this.left - 1, y, this.table.columns.length * this.cell + 1, this.cell + 1);
    put(this.cellMark, this.left + column * this.cell - 1, y, this.cell + 1, this.cell + 1);
    if (!this.cellMark.hidden) this.canvas.setAttribute("aria-label", this.tell(row, column));
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  tell(row, column) {
    return cellLabel(this.table, row, column);
  }

  /** @param {PointerEvent} event */
  at(event) {
    const column = Math.floor((event.offsetX - this.left) / this.cell);
    const row = Math.floor((event.offsetY - this.top) / this.cell);
    const inside = row >= 0 && column >= 0 && row < this.table.rows.length && column < this.table.columns.length;
    return inside ? { row, column } : null;
  }

  /** @param {PointerEvent} event */
  point(event) {
    const cell = this.at(event);
    const { held, playing, step } = this.store.state;
    if (!cell || held || playing || event.pointerType === "touch") return;
    this.canvas.title = this.tell(cell.row, cell.column);
    const next = this.table.rows[cell.row].pieces[0];
    if (next !== step || !this.store.state.lit) this.store.set({ step: next, lit: true, from: null });
  }

  /** @param {PointerEvent} event */
  choose(event) {
    const cell = this.at(event);
    if (cell) this.select(cell.row, cell.column);
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  select(row, column) {
    const at = { step: this.table.rows[row].pieces[0], position: this.table.columns[column].pieces[0] };
    this.store.set({ ...at, lit: true, held: true, from: null, pinned: true, playing: false });
  }

  focus() {
    this.canvas.focus();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = Math.max(0, unitAt(this.table.rows, this.store.state.step));
    const column = Math.max(0, unitAt(this.table.columns, this.store.state.position));
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    const last = [this.table.rows.length - 1, this.table.columns.length - 1];
    if (move) this.select(clamp(row + move[0], 0, last[0]), clamp(column + move[1], 0, last[1]));
    else if (!this.store.state.live || this.table.several || !change(event.key, this.store, this.table, row, column)) return;
    event.preventDefault();
  }
}

/**
 * @param {HTMLElement} mark
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function put(mark, x, y, width, height) {
  mark.style.setProperty("transform", `translate(${x}px, ${y}px)`);
  mark.style.setProperty("width", `${width}px`);
  mark.style.setProperty("height", `${height}px`);
}
