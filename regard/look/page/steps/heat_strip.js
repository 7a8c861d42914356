/** A long vector as a heat strip on a canvas, with the number under the pointer. */

import { h } from "../drawing/dom.js";
import { decimal } from "../drawing/number.js";

const CELL = 7; // pixels
const MOST_COLUMNS = 96;

/**
 * @param {number[]} numbers
 * @param {{gate: boolean, room: number, label: string, tell: (text: string) => void}} options `gate`: between 0 and 1,
 *   in one colour; `tell`: where the number under the pointer is written
 */
export function heatStrip(numbers, { gate, room, label, tell }) {
  const columns = Math.max(1, Math.min(numbers.length, MOST_COLUMNS, Math.floor(room / CELL)));
  const rows = Math.ceil(numbers.length / columns);
  const sharp = Math.max(1, globalThis.devicePixelRatio ?? 1);
  const [width, height] = [columns * CELL, rows * CELL];
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "strip", role: "img", "aria-label": label,
    width: Math.round(width * sharp), height: Math.round(height * sharp) }));
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  const full = gate ? 1 : Math.max(1e-9, ...numbers.map(Math.abs));
  const paint = () => {
    const pen = canvas.getContext("2d");
    if (!pen) return;
    const style = getComputedStyle(document.documentElement);
    const [ground, above, below] = ["--cell", "--accent", "--warm"].map((name) => style.getPropertyValue(name));
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, width, height);
    numbers.forEach((number, index) => {
      const box = /** @type {const} */ ([(index % columns) * CELL, Math.floor(index / columns) * CELL, CELL - 1, CELL - 1]);
      pen.globalAlpha = 1;
      pen.fillStyle = ground;
      pen.fillRect(...box);
      pen.globalAlpha = Math.min(1, Math.abs(number) / full);
      pen.fillStyle = number < 0 ? below : above;
      pen.fillRect(...box);
    });
  };
  paint();
  canvas.addEventListener("repaint", paint);
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    const index = Math.floor(offsetY / CELL) * columns + Math.min(columns - 1, Math.floor(offsetX / CELL));
    if (index < numbers.length) tell(`${index + 1}: ${decimal(numbers[index], 4)}`);
  });
  canvas.addEventListener("pointerleave", () => tell(""));
  return canvas;
}
