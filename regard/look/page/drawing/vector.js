/** A vector as a row of coloured cells: one hue for positive, another for negative numbers, fainter near zero. */

import { s } from "./dom.js";
import { clamp, decimal } from "./number.js";

/**
 * @param {number[]} numbers
 * @param {{scale?: number, size?: number, columns?: number, label?: string, key?: string, written?: boolean,
 *   upright?: boolean}} [options] `scale`: the number with full colour; `key`: a class for the whole; `written`: with the
 *   numbers in the cells; `upright`: one below the other
 */
export function vectorCells(numbers, options = {}) {
  const { scale, size = 17, upright = false, label, key = "", written = false } = options;
  const columns = upright ? 1 : (options.columns ?? numbers.length);
  const full = scale ?? Math.max(1e-9, ...numbers.map(Math.abs));
  const rows = Math.ceil(numbers.length / Math.max(columns, 1));
  const gap = 1;
  const wide = written ? 40 : upright ? 30 : size;
  const width = Math.max(columns, 1) * (wide + gap) - gap;
  const height = Math.max(rows, 1) * (size + gap) - gap;
  const told = label ?? numbers.map((number) => decimal(number)).join(", ");
  const picture = s("svg", { class: `vector ${key}`, width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  picture.setAttribute("aria-label", told);
  numbers.forEach((number, index) => {
    const place = { x: (index % columns) * (wide + gap), y: Math.floor(index / columns) * (size + gap) };
    const sign = number < 0 ? "below" : "above";
    // Keep the colour light enough to read the number.
    const strength = (clamp(Math.abs(number) / full, 0, 1) * (written ? 0.45 : 1)).toFixed(3);
    const box = { ...place, width: wide, height: size, rx: 2 };
    picture.append(s("rect", { ...box, class: "cell-base" }),
      s("rect", { ...box, class: sign, "fill-opacity": strength }, s("title", {}, decimal(number, 4))));
    if (written) {
      picture.append(s("text", { x: place.x + wide / 2, y: place.y + size / 2, "text-anchor": "middle",
        "dominant-baseline": "central", class: "in-cell" }, decimal(number)));
    }
  });
  return picture;
}
