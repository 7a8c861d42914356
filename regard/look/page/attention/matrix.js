/** The attention matrix with entropy and coverage; keyboard navigation, editing by click and drag. */

import { change, drag } from "../changes/gestures.js";
import { traceAt, unitAt } from "../data/record.js";
import { changeOf } from "../data/store.js";
import { cellLabel } from "../data/table.js";
import { h, replace, s } from "../drawing/dom.js";
import { explain } from "../drawing/explain.js";
import { measure, short } from "../drawing/label.js";
import { clamp, decimal } from "../drawing/number.js";
import { say } from "../language/language.js";
import { bellOf } from "./bell.js";
import { Dense } from "./dense.js";
import { stripes } from "./head_stripes.js";

const LARGEST = 84;
const [LOW, HIGH] = [17, 28]; // the height of a row, as the matrix should fit the screen
const ABOVE = 575; // pixels of the page above the matrix
const [LEAST, MOST] = [200, 380]; // the height of all rows
const SMALLEST = 17;
const THIN = 0.6; // the share of a cell that a special token gets
const SMALL = 20; // cells below it have smaller labels
const MOST_DRAWN = 30; // words; longer sentences are painted on a canvas
const BAR = 46; // room for the bars of coverage
const ASIDE = 84; // room for those of entropy and their name
const LABEL = 150; // the longest label, in pixels

/** @typedef {import("../data/table.js").Table} Table */

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/table.js").Tables} tables
 */
export function mountMatrix(place, store, tables) {
  const scroll = h("div", { class: "scroll", tabindex: -1 });
  const hint = h("p", { class: "hint keys", id: "matrix-hint" }, say("matrix_hint"), " ", say("matrix_keys"));
  const terms = h("p", { class: "hint terms" }, say("coverage"), explain("coverage"), say("entropy"), explain("entropy"));
  place.append(h("h2", { class: "hidden-visually" }, say("matrix")), scroll, terms, hint);
  /** @type {Matrix | Dense | null} */
  let matrix = null;
  let room = 0;
  const rebuild = () => {
    const table = tables.current;
    if (table === null) return void (matrix = null);
    hint.hidden = !store.state.live;
    const held = scroll.contains(document.activeElement);
    room = scroll.clientWidth;
    const many = Math.max(table.rows.length, table.columns.length) > MOST_DRAWN;
    matrix = many ? new Dense(table, store, room) : new Matrix(table, store, room);
    replace(scroll, matrix.picture);
    matrix.mark();
    if (held) matrix.focus();
  };
  tables.listen(rebuild);
  new ResizeObserver(() => {
    if (scroll.clientWidth !== room) rebuild(); // only then: rebuilding would interrupt a drag
  }).observe(scroll);
  store.listen((state, before) => {
    if (state.step !== before.step || state.position !== before.position) matrix?.mark();
  });
}

/** One drawn matrix. */
class Matrix {
  /**
   * @param {Table} table
   * @param {import("../data/store.js").Store} store
   * @param {number} room in pixels
   */
  constructor(table, store, room) {
    this.table = table;
    this.store = store;
    const longest = Math.max(0, ...table.rows.map((unit) => measure(unit.label)));
    this.left = Math.max(Math.min(longest, LABEL), measure(say("coverage"))) + 12;
    const fits = (room - this.left - ASIDE) / Math.max(table.columns.length, 1);
    this.cell = Math.floor(clamp(fits, SMALLEST, LARGEST));
    const widest = Math.min(Math.max(0, ...table.columns.map((unit) => measure(unit.label))), LABEL);
    this.slanted = widest > this.cell - 4;
    this.top = this.slanted ? widest * 0.71 + 20 : 24;
    this.lean = this.slanted ? widest * 0.71 : 0;
    const below = clamp(window.innerHeight - ABOVE - this.top - BAR, LEAST, MOST);
    this.tall = Math.min(this.cell, clamp(Math.floor(below / table.rows.length), LOW, HIGH));
    const starts = [0];
    for (const unit of table.columns) starts.push(starts[starts.length - 1] + this.cell * (unit.special ? THIN : 1));
    this.starts = starts;
    this.width = this.x(table.columns.length) + Math.max(ASIDE, this.lean);
    this.height = this.top + table.rows.length * this.tall + BAR;
    /** @type {SVGElement[][]} */
    this.cells = [];
    this.picture = this.draw();
  }

  draw() {
    const size = { width: this.width, height: this.height, viewBox: `0 0 ${this.width} ${this.height}` };
    const key = Math.min(this.cell, this.tall) < SMALL ? "matrix fine" : "matrix";
    const picture = s("svg", { class: key, ...size, role: "grid", "aria-label": say("matrix_label") });
    if (this.store.state.live) picture.setAttribute("aria-describedby", "matrix-hint");
    picture.append(this.columnLabels(), ...this.table.rows.map((_, t) => this.row(t)));
    picture.append(this.windows(), this.entropyBars(), this.coverageBars());
    this.mover = s("rect", { class: "row-mark", height: this.tall, rx: 3, "pointer-events": "none" });
    picture.append(this.mover);
    picture.addEventListener("keydown", (event) => this.key(/** @type {KeyboardEvent} */ (event)));
    picture.addEventListener("focusin", (event) => this.reach(event));
    drag(picture, this, this.store);
    return picture;
  }

  columnLabels() {
    const { ban } = changeOf(this.store.state);
    const labels = this.table.columns.map((unit, j) => {
      const x = this.x(j) + this.wide(j) / 2;
      const y = this.top - 8;
      const banned = unit.pieces.every((piece) => ban.includes(piece)) && this.table.view.kind !== "decoder-self";
      const place = this.slanted
        ? { transform: `translate(${x + 3} ${y}) rotate(-45)`, "text-anchor": "start" }
        : { x, y, "text-anchor": "middle" };
      return s("text", { ...place, class: banned ? "label banned" : "label", role: "columnheader" }, short(unit.label));
    });
    return s("g", { role: "row" }, labels);
  }

  /** @param {number} t */
  row(t) {
    const { rows, columns, weights } = this.table;
    const y = this.y(t);
    const edits = changeOf(this.store.state).edits;
    this.cells.push(
      columns.map((column, j) => {
        const value = weights[t][j];
        const edited = edits.some(
          (edit) => edit.kind === this.table.view.kind && rows[t].pieces.includes(edit.step ?? -1) &&
            (edit.position === null || column.pieces.includes(edit.position)),
        );
        const told = cellLabel(this.table, t, j);
        const inner = { x: this.x(j) + 1, y: y + 1, width: this.wide(j) - 2, height: this.tall - 2, rx: 3 };
        return s("g", {
          class: edited ? "cell edited" : "cell", role: "gridcell", tabindex: -1, "data-row": t, "data-column": j,
          "aria-label": told,
        }, s("rect", { ...inner, class: "cell-base" }), this.table.several ? stripes(this.table.several, t, j, inner)
          : s("rect", { ...inner, class: "above", "fill-opacity": clamp(value, 0, 1).toFixed(3) }), s("title", {}, told));
      }),
    );
    const label = { x: this.left - 8, y: y + this.tall / 2, "text-anchor": "end", "dominant-baseline": "central" };
    const name = s("text", { ...label, class: "label", role: "rowheader", "data-row": t }, short(rows[t].label));
    return s("g", { role: "row" }, name, this.cells[t]);
  }

  /** Local attention: window and centre of each row, and the Gaussian of the current row. */
  windows() {
    const group = s("g", { class: "windows", "pointer-events": "none" });
    if (this.table.view.kind !== "cross") return group;
    this.table.rows.forEach((unit, t) => {
      const trace = traceAt(this.table.look, unit.pieces[0], this.table.view);
      if (!trace?.window) return;
      const [first, last] = trace.window;
      const from = this.along(first - 0.5);
      const to = this.along(last + 0.5);
      const size = { x: from, y: this.y(t) + 0.5, width: Math.max(to - from, 0), height: this.tall - 1, rx: 4 };
      group.append(s("rect", { ...size, class: "window", "data-row": t }));
      if (trace.centre === null) return;
      const x = this.along(trace.centre - 1);
      group.append(s("line", { x1: x, x2: x, y1: this.y(t) + 2, y2: this.y(t) + this.tall - 2, class: "centre" },
        s("title", {}, say("window_note", { centre: decimal(trace.centre) }))));
      if (trace.gaussian) group.append(this.bell(trace.gaussian, trace.window, t));
    });
    return group;
  }

  /**
   * @param {number[]} gaussian
   * @param {[number, number]} window
   * @param {number} t
   */
  bell(gaussian, [first, last], t) {
    const points = [];
    const floor = this.y(t) + this.tall - 2;
    const value = bellOf(gaussian, first, last);
    const [from, to] = [first - 0.5, last + 0.5];
    for (let k = 0; k <= 48; k++) {
      const at = from + ((to - from) * k) / 48;
      points.push(`${this.along(at).toFixed(1)},${(floor - (this.tall - 4) * value(at)).toFixed(1)}`);
    }
    return s("polyline", { points: points.join(" "), class: "bell", "data-row": t });
  }

  entropyBars() {
    const x = this.x(this.table.columns.length) + 8;
    const most = Math.max(1, Math.log2(Math.max(this.table.columns.length, 2)));
    const bars = (this.table.measures?.entropy ?? []).map((bits, t) => {
      const middle = this.y(t) + this.tall / 2;
      return s("g", {},
        s("rect", { x, y: middle - 2, height: 4, width: (bits / most) * BAR, rx: 2, class: "measure" }),
        s("title", {}, `${say("entropy")}: ${decimal(bits)}`));
    });
    const name = s("text", { x, y: this.y(this.table.rows.length) + 14, class: "small" }, say("entropy"));
    return s("g", { "aria-hidden": "true" }, bars, bars.length > 0 && name);
  }

  coverageBars() {
    const y = this.y(this.table.rows.length) + 8;
    const sums = this.table.measures?.coverage ?? [];
    const most = Math.max(1, ...sums);
    const bars = sums.map((sum, j) => {
      const size = { x: this.x(j) + this.wide(j) / 2 - 2, y, width: 4, height: (sum / most) * (BAR - 16), rx: 2 };
      return s("g", {}, s("rect", { ...size, class: "measure" }),
        s("title", {}, `${say("coverage")}: ${decimal(sum)}`));
    });
    const place = { x: this.left - 8, y: y + 10, "text-anchor": "end", class: "small" };
    return s("g", { "aria-hidden": "true" }, bars.length > 0 && s("text", place, say("coverage")), bars);
  }

  /** @param {number} j */
  wide(j) {
    return this.starts[j + 1] - this.starts[j];
  }

  /** @param {number} j */
  x(j) {
    return this.left + this.starts[j];
  }

  /** @param {number} t */
  y(t) {
    return this.top + t * this.tall;
  }

  /**
   * The x coordinate of a (fractional) piece position; the pieces of a word share its cell.
   * @param {number} position
   */
  along(position) {
    const { columns } = this.table;
    for (let j = 0; j < columns.length; j++) {
      const { pieces } = columns[j];
      const offset = position - pieces[0] + 0.5;
      if (offset <= pieces.length || j === columns.length - 1) {
        return this.x(j) + clamp(offset / pieces.length, 0, 1) * this.wide(j);
      }
    }
    return this.left;
  }

  /** Mark the current row and cell. */
  mark() {
    const row = unitAt(this.table.rows, this.store.state.step);
    const column = unitAt(this.table.columns, this.store.state.position);
    this.picture.querySelectorAll("[data-row]").forEach((element) => {
      element.classList.toggle("in-row", Number(element.getAttribute("data-row")) === row);
    });
    this.picture.classList.toggle("has-row", row >= 0);
    this.mover?.setAttribute("x", String(this.left));
    this.mover?.setAttribute("width", String(row < 0 ? 0 : this.x(this.table.columns.length) - this.left));
    this.mover?.setAttribute("y", String(this.y(Math.max(row, 0))));
    this.cells.flat().forEach((cell) => {
      cell.setAttribute("tabindex", "-1");
      cell.classList.remove("here");
      cell.removeAttribute("aria-selected");
    });
    const here = this.cells[Math.max(row, 0)]?.[Math.max(column, 0)];
    here?.setAttribute("tabindex", "0"); // roving tabindex: one Tab stop, then arrow keys
    if (row >= 0 && column >= 0) {
      here?.classList.add("here");
      here?.setAttribute("aria-selected", "true");
    }
  }

  focus() {
    /** @type {SVGElement | null} */ (this.picture.querySelector('[tabindex="0"]'))?.focus();
  }

  /** @param {Event} event */
  reach(event) {
    const cell = /** @type {Element} */ (event.target).closest(".cell");
    if (cell) this.select(Number(cell.getAttribute("data-row")), Number(cell.getAttribute("data-column")));
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  select(row, column) {
    const step = this.table.rows[row].pieces[0];
    const position = this.table.columns[column].pieces[0];
    this.store.set({ step, position, lit: true, held: true, from: null, pinned: true, playing: false });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const cell = /** @type {Element} */ (event.target).closest(".cell");
    if (!cell || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = Number(cell.getAttribute("data-row"));
    const column = Number(cell.getAttribute("data-column"));
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    if (move) this.cells[row + move[0]]?.[column + move[1]]?.focus();
    else if (!this.store.state.live || this.table.several || !change(event.key, this.store, this.table, row, column)) return;
    event.preventDefault();
  }
}
