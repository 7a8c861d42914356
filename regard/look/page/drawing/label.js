/** The labels of drawings: short, and how wide they are; the name of an image cell. */

import { say } from "../language/language.js";

const pen = document.createElement("canvas").getContext("2d");

/**
 * The approximate width of a label.
 * @param {string} label
 */
export function measure(label) {
  if (!pen) return label.length * 8;
  pen.font = "14px system-ui, sans-serif";
  return pen.measureText(short(label)).width + 4;
}

/** @param {string} label */
export function short(label) {
  return [...label].length > 20 ? [...label].slice(0, 19).join("") + "…" : label;
}

/**
 * "row 2, column 3", counted from 1.
 * @param {number} position
 * @param {number} columns
 */
export function cellName(position, columns) {
  return say("cell_name", { row: Math.floor(position / columns) + 1, column: (position % columns) + 1 });
}
