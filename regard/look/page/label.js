/** The labels of drawings: short, and how wide they are. */

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
