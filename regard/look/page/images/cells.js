/** An image with the model's attention cells: contours of the weights, or a veil over small ones; a cell can be selected. */

import { h, s } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { contours } from "./contours.js";

const SIDE = 320; // pixels of the longer side
const VEIL = 0.72; // opacity over a cell with weight 0
const MOST_CONTOURED = 256; // cells

/**
 * @typedef {{width: number, height: number, png: string}} Pixels
 * @typedef {{rows: number, columns: number}} Grid
 * @typedef {"contours" | "veil"} Overlay
 */

/**
 * @param {Pixels} image
 * @param {Grid} grid
 * @param {{label: string, name?: (position: number) => string, choose?: (position: number) => void}} options with
 *   `choose`, each cell is a button of that name
 */
export function drawCells({ width, height, png }, { rows, columns }, { label, name, choose }) {
  const scale = SIDE / Math.max(width, height);
  const across = width * scale;
  const down = height * scale;
  const picture = s("svg", { class: "cells", width: across, height: down, viewBox: `0 0 ${across} ${down}` });
  picture.setAttribute("role", choose ? "group" : "img");
  picture.setAttribute("aria-label", label);
  picture.append(s("image", { href: `data:image/png;base64,${png}`, width: across, height: down,
    class: scale > 2 ? "pixels" : "", preserveAspectRatio: "none" }));
  const size = { width: across / columns, height: down / rows };
  for (let p = 0; p < rows * columns; p++) {
    const at = { x: (p % columns) * size.width, y: Math.floor(p / columns) * size.height };
    const cell = s("rect", { ...at, ...size, class: "veil", "data-position": p });
    if (choose) makeButton(cell, p, name?.(p) ?? "", choose);
    picture.append(cell);
  }
  picture.dataset.rows = String(rows);
  picture.dataset.columns = String(columns);
  if (choose) picture.addEventListener("keydown", (event) => walk(picture, columns, event));
  return picture;
}

/**
 * @param {SVGElement} cell
 * @param {number} position
 * @param {string} name
 * @param {(position: number) => void} choose
 */
function makeButton(cell, position, name, choose) {
  cell.setAttribute("role", "button");
  cell.setAttribute("tabindex", position === 0 ? "0" : "-1"); // roving tabindex: one Tab stop, then arrow keys
  cell.setAttribute("aria-label", name);
  cell.append(s("title", {}, name));
  cell.addEventListener("click", () => choose(position));
  cell.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(position);
  });
}

/**
 * @param {SVGElement} picture
 * @param {number} columns
 * @param {KeyboardEvent} event
 */
function walk(picture, columns, event) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  const here = /** @type {Element} */ (event.target).getAttribute("data-position");
  if (!step || here === null) return;
  event.preventDefault();
  const cells = cellsOf(picture);
  const beside = Math.abs(step) === 1 && Math.floor(Number(here) / columns) !== Math.floor((Number(here) + step) / columns);
  const next = beside ? undefined : cells[Number(here) + step];
  if (!next) return;
  cells[Number(here)].setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

/** @param {Element} picture */
function cellsOf(picture) {
  return /** @type {SVGElement[]} */ ([...picture.querySelectorAll(".veil")]);
}

/**
 * Draw contours of the weights, or darken each cell by 1 − weight / largest weight; null removes them.
 * @param {SVGElement} picture
 * @param {number[] | null} weights
 * @param {Overlay} overlay
 */
export function lightCells(picture, weights, overlay) {
  const grid = { rows: Number(picture.dataset.rows), columns: Number(picture.dataset.columns) };
  const veiled = weights !== null && (overlay === "veil" || isFine(grid));
  picture.classList.toggle("lit", veiled);
  cellsOf(picture).forEach((cell, p) => cell.style.setProperty("fill-opacity", (veiled ? dark(weights, p) : 0).toFixed(3)));
  picture.querySelector(".contours")?.remove();
  if (weights === null || veiled) return;
  const size = { width: Number(picture.getAttribute("width")), height: Number(picture.getAttribute("height")) };
  picture.append(contours(weights, grid, size));
}

/**
 * Whether there are too many cells for readable contours; such maps are always drawn as a veil.
 * @param {Grid} grid
 */
export function isFine({ rows, columns }) {
  return rows * columns > MOST_CONTOURED;
}

/**
 * @param {number[]} weights
 * @param {number} position
 */
function dark(weights, position) {
  return VEIL * (1 - Math.max(weights[position] ?? 0, 0) / Math.max(...weights, 1e-9));
}

/**
 * The image small, with the attention of one word.
 * @param {Pixels} image
 * @param {Grid} grid
 * @param {number[]} weights
 * @param {Overlay} overlay
 * @param {number} side in pixels
 */
export function smallCells({ width, height, png }, grid, weights, overlay, side) {
  const scale = side / Math.max(width, height);
  const size = { width: width * scale, height: height * scale };
  const cell = { width: size.width / grid.columns, height: size.height / grid.rows };
  const veils = () => weights.map((_, p) => s("rect", { ...cell, x: (p % grid.columns) * cell.width, class: "small-veil",
    y: Math.floor(p / grid.columns) * cell.height, "fill-opacity": dark(weights, p).toFixed(3) }));
  return s("svg", { class: "small-cells", ...size, viewBox: `0 0 ${size.width} ${size.height}`, "aria-hidden": "true" },
    s("image", { href: `data:image/png;base64,${png}`, ...size, preserveAspectRatio: "none" }),
    overlay === "veil" ? veils() : contours(weights, grid, size, 3));
}

/**
 * Contours or a veil.
 * @param {import("../data/store.js").Store} store
 */
export function overlayChoice(store) {
  const place = h("div", { class: "segments", role: "group", "aria-label": say("overlay") });
  const buttons = /** @type {const} */ (["contours", "veil"]).map((overlay) =>
    h("button", { "data-overlay": overlay, click: () => store.set({ overlay }) }, say(overlay)));
  place.append(...buttons);
  const mark = () => buttons.forEach((each) =>
    each.setAttribute("aria-pressed", String(each.dataset.overlay === store.state.overlay)));
  store.listen(mark);
  mark();
  return place;
}

/**
 * Mark exactly these cells.
 * @param {Element} picture
 * @param {number[]} positions
 * @param {string} key a class
 */
export function markCells(picture, positions, key) {
  cellsOf(picture).forEach((cell, p) => {
    const marked = positions.includes(p);
    cell.classList.toggle(key, marked);
    if (cell.getAttribute("role") === "button") cell.setAttribute("aria-pressed", String(marked));
  });
}

/**
 * A note on the model's resolution.
 * @param {Grid} grid
 */
export function tellGrid(grid) {
  return h("p", { class: "hint" }, say("cells_note", { rows: grid.rows, columns: grid.columns }));
}
