/** A cell of the matrix with several heads. */

import { s } from "../drawing/dom.js";
import { clamp } from "../drawing/number.js";

/**
 * One stripe for each of several heads, in its colour.
 * @param {import("../data/table.js").One[]} several
 * @param {number} t
 * @param {number} j
 * @param {{x: number, y: number, width: number, height: number}} inner
 */
export function stripes(several, t, j, { x, y, width, height }) {
  const wide = width / several.length;
  return several.map(({ weights }, head) => s("rect", { x: x + head * wide, y, width: wide, height,
    class: `stripe head-${head + 1}`, "fill-opacity": clamp(weights[t][j], 0, 1).toFixed(3) }));
}
