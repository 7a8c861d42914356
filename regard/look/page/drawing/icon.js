/** Button icons in the current text colour. */

import { s } from "./dom.js";

const PATHS = {
  back: "M15 5L8 12L15 19",
  on: "M9 5L16 12L9 19",
  play: "M8 5L19 12L8 19Z",
  pause: "M8 5v14M16 5v14",
};

/** @typedef {keyof typeof PATHS} Icon */

/** @param {Icon} name */
export function icon(name) {
  const frame = { class: `icon icon-${name}`, viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true" };
  return s("svg", frame, s("path", { d: PATHS[name] }));
}
