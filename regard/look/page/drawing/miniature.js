/** A small map without labels, on a canvas: many of them are drawn at once. */

import { h } from "./dom.js";

/**
 * @param {number[][]} weights
 * @param {number} size the longer side in pixels
 */
export function miniature(weights, size) {
  const height = weights.length;
  const width = weights[0]?.length ?? 0;
  const cell = size / Math.max(height, width, 1);
  const sharp = Math.max(2, globalThis.devicePixelRatio ?? 1);
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { class: "miniature", "aria-hidden": "true" }));
  canvas.width = Math.max(1, Math.round(width * cell * sharp));
  canvas.height = Math.max(1, Math.round(height * cell * sharp));
  canvas.style.setProperty("width", `${canvas.width / sharp}px`);
  canvas.style.setProperty("height", `${canvas.height / sharp}px`);
  const paint = () => {
    const pen = canvas.getContext("2d");
    if (!pen) return;
    const style = getComputedStyle(document.documentElement);
    pen.globalAlpha = 1;
    pen.fillStyle = style.getPropertyValue("--cell");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = style.getPropertyValue("--accent");
    weights.forEach((row, t) => row.forEach((value, j) => {
      if (value < 0.02) return;
      pen.globalAlpha = Math.min(value, 1);
      const [x, y] = [Math.floor(j * cell * sharp), Math.floor(t * cell * sharp)];
      pen.fillRect(x, y, Math.ceil(cell * sharp), Math.ceil(cell * sharp));
    }));
  };
  paint();
  canvas.addEventListener("repaint", paint); // the colours have changed
  return canvas;
}

/** Draw all canvases again in the current colours. */
export function repaintAll() {
  for (const canvas of document.querySelectorAll("canvas")) canvas.dispatchEvent(new Event("repaint"));
}
