/** The curve of local attention's Gaussian. */

import { clamp } from "../drawing/number.js";

/**
 * The Gaussian through the values at whole positions: its logarithm is a parabola, fixed by three of them.
 * @param {number[]} gaussian
 * @param {number} first
 * @param {number} last
 */
export function bellOf(gaussian, first, last) {
  const logs = Array.from({ length: last - first + 1 }, (_, k) => Math.log(Math.max(gaussian[first + k], 1e-30)));
  if (logs.length < 3) return (/** @type {number} */ at) => gaussian[Math.round(clamp(at, first, last))];
  const best = clamp(logs.indexOf(Math.max(...logs)), 1, logs.length - 2);
  const [a, b, c] = logs.slice(best - 1, best + 2);
  const [slope, bend] = [(c - a) / 2, (a - 2 * b + c) / 2];
  return (/** @type {number} */ at) => Math.exp(b + slope * (at - first - best) + bend * (at - first - best) ** 2);
}
