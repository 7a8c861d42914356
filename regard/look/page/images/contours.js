/** Contour lines of attention over an image: where it is a quarter, a half and three quarters of its maximum. */

import { s } from "../drawing/dom.js";

export const LEVELS = [0.25, 0.5, 0.75];

/**
 * @param {number[]} weights of the cells, row by row
 * @param {{rows: number, columns: number}} grid
 * @param {{width: number, height: number}} size of the picture
 * @param {number} [fine] steps between two cells
 * @returns {SVGElement} a line for each level, on a dark one that shows on any image
 */
export function contours(weights, grid, size, fine = 6) {
  const field = sampled(weights, grid, fine);
  const most = Math.max(...weights, 1e-9);
  const lines = LEVELS.map((level) => lineOf(field, level * most, grid, size, fine));
  return s("g", { class: "contours", "aria-hidden": "true" },
    lines.map((d) => s("path", { class: "contour-edge", d })),
    lines.map((d, index) => s("path", { class: `contour contour-${index + 1}`, d })));
}

/**
 * Bilinear interpolation between the middles of the cells; around the image there is a border of zeros.
 * @param {number[]} weights
 * @param {{rows: number, columns: number}} grid
 * @param {number} fine
 */
function sampled(weights, { rows, columns }, fine) {
  const at = (/** @type {number} */ row, /** @type {number} */ column) =>
    (row < 0 || column < 0 || row >= rows || column >= columns ? 0 : Math.max(weights[row * columns + column] ?? 0, 0));
  return Array.from({ length: (rows + 1) * fine + 1 }, (_, i) => {
    const [row, down] = [Math.floor(i / fine) - 1, (i % fine) / fine];
    return Array.from({ length: (columns + 1) * fine + 1 }, (_, j) => {
      const [column, right] = [Math.floor(j / fine) - 1, (j % fine) / fine];
      const above = at(row, column) * (1 - right) + at(row, column + 1) * right;
      const below = at(row + 1, column) * (1 - right) + at(row + 1, column + 1) * right;
      return above * (1 - down) + below * down;
    });
  });
}

/**
 * Marching squares: a short line through every square of samples that the level crosses.
 * @param {number[][]} field
 * @param {number} level
 * @param {{rows: number, columns: number}} grid
 * @param {{width: number, height: number}} size
 * @param {number} fine
 */
function lineOf(field, level, { rows, columns }, { width, height }, fine) {
  const x = (/** @type {number} */ j) => ((j / fine - 0.5) * width) / columns;
  const y = (/** @type {number} */ i) => ((i / fine - 0.5) * height) / rows;
  const parts = [];
  for (let i = 0; i + 1 < field.length; i++) {
    for (let j = 0; j + 1 < field[i].length; j++) {
      const corners = [field[i][j], field[i][j + 1], field[i + 1][j + 1], field[i + 1][j]];
      const share = (/** @type {number} */ a, /** @type {number} */ b) => (level - corners[a]) / (corners[b] - corners[a]);
      const crossed = (/** @type {number} */ a, /** @type {number} */ b) => (corners[a] >= level) !== (corners[b] >= level);
      const points = [
        crossed(0, 1) && [j + share(0, 1), i], crossed(1, 2) && [j + 1, i + share(1, 2)],
        crossed(3, 2) && [j + share(3, 2), i + 1], crossed(0, 3) && [j, i + share(0, 3)],
      ].filter((point) => point !== false);
      for (let k = 0; k + 1 < points.length; k += 2) {
        const [[a, b], [c, d]] = [points[k], points[k + 1]];
        parts.push(`M${x(a).toFixed(1)} ${y(b).toFixed(1)}L${x(c).toFixed(1)} ${y(d).toFixed(1)}`);
      }
    }
  }
  return parts.join("");
}
