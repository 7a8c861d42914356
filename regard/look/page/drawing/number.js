/** Number formats: short, with U+2212 as minus sign, and ∞. */

/**
 * @param {number | null} value null stands for minus infinity
 * @param {number} [digits]
 */
export function decimal(value, digits = 2) {
  if (value === null || value === undefined || value === -Infinity) return "−∞";
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/**
 * A probability or a weight; small positive values become "<.01", not 0.
 * @param {number} value
 */
export function weight(value) {
  if (value > 0 && value < 0.005) return "<.01";
  return decimal(value);
}

/** @param {number} value */
export function percent(value) {
  if (value > 0 && value < 0.001) return "<0.1%";
  return `${(value * 100).toFixed(value < 0.1 ? 1 : 0)}%`;
}

/**
 * A difference of probabilities in percentage points, with its sign.
 * @param {number} value
 */
export function change(value) {
  const points = Math.abs(value * 100).toFixed(1);
  if (Number(points) === 0) return "0";
  return (value < 0 ? "−" : "+") + points;
}

/**
 * Keep a value within bounds.
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
export function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}
