/** Convert the view to a URL fragment and back. */

import { START, changeOf } from "./store.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./store.js").Change} Change
 * @typedef {import("./record.js").Edit} Edit
 */

const NUMBERS = /** @type {const} */ (["layer", "head", "step", "position", "stage", "beam", "moment"]);

/**
 * @param {State} state
 * @returns {string}
 */
export function writeLink(state) {
  const link = new URLSearchParams();
  if (state.live) {
    if (state.text) link.set("text", state.text);
    if (state.mode === "image") link.set("image", state.picture?.sample ?? "");
    for (const name of state.chosen) link.append("model", name);
  }
  if (state.focus !== null) link.set("look", state.focus);
  if (state.beside !== null) link.set("beside", state.beside);
  for (const name of NUMBERS) {
    const value = state[name];
    if (value !== null && value !== START[name]) link.set(name, String(value));
  }
  if (state.unit !== START.unit) link.set("unit", state.unit);
  if (state.several.length > 0) link.set("heads", state.several.map((each) => `${each.layer}.${each.head}`).join(","));
  if (state.kind !== START.kind) link.set("kind", state.kind);
  if (state.overlay !== START.overlay) link.set("overlay", state.overlay);
  if (state.specials) link.set("specials", "1");
  if (state.panel !== START.panel) link.set("panel", state.panel);
  const { prefix, ban, edits } = changeOf(state);
  if (prefix.length > 0) link.set("prefix", prefix.join(","));
  if (ban.length > 0) link.set("ban", ban.join(","));
  for (const edit of edits) link.append("edit", writeEdit(edit));
  return link.toString();
}

/**
 * @param {string} fragment
 * @returns {{state: Partial<State>, change: Change | null, sample: string | null}} `sample` is an image to draw; empty
 *   where the image itself could not be in the link
 */
export function readLink(fragment) {
  const link = new URLSearchParams(fragment.replace(/^#/, ""));
  /** @type {Partial<State>} */
  const state = { text: link.get("text") ?? "", chosen: link.getAll("model"), focus: link.get("look"), beside: link.get("beside") };
  for (const name of NUMBERS) {
    const value = wholeNumber(link.get(name));
    state[name] = value ?? /** @type {any} */ (START[name]);
  }
  state.pinned = state.position !== null;
  state.stage = Math.min(/** @type {number} */ (state.stage), 4);
  state.unit = link.get("unit") === "pieces" ? "pieces" : "words";
  state.several = (link.get("heads") ?? "").split(",").slice(0, 6).flatMap((text) => {
    const [layer, head] = text.split(".").map(wholeNumber);
    return layer === null || head === null || head === undefined ? [] : [{ layer, head }];
  });
  if (state.several.length > 0) Object.assign(state, state.several.at(-1));
  const kind = link.get("kind") ?? "";
  state.kind = ["encoder-self", "decoder-self"].includes(kind) ? kind : START.kind;
  state.overlay = link.get("overlay") === "veil" ? "veil" : START.overlay;
  state.specials = link.get("specials") === "1";
  const panel = link.get("panel") ?? "";
  state.panel = /** @type {any} */ (["steps", "map", "beam"].includes(panel) ? panel : START.panel);
  state.lit = state.held = state.step !== null;
  const prefix = wholeNumbers(link.get("prefix"));
  const ban = wholeNumbers(link.get("ban"));
  const edits = link.getAll("edit").flatMap((text) => readEdit(text) ?? []);
  const changed = prefix.length + ban.length + edits.length > 0;
  return { state, change: changed ? { prefix, ban, edits } : null, sample: link.get("image") };
}

/** @param {Edit} edit */
function writeEdit(edit) {
  const place = [edit.layer, edit.head, edit.step, edit.position].map((value) => value ?? "").join(".");
  const sign = edit.multiply === null || edit.multiply === undefined ? "=" : "*";
  return `${edit.kind} ${place} ${sign} ${edit.multiply ?? edit.replace}`;
}

/**
 * @param {string} text
 * @returns {Edit | null}
 */
function readEdit(text) {
  const [kind, place, sign, value] = text.split(" ");
  const number = Number(value);
  if (!["cross", "encoder-self", "decoder-self"].includes(kind) || !Number.isFinite(number)) return null;
  const [layer, head, step, position] = (place ?? "").split(".").map(wholeNumber);
  const edit = { kind, layer: layer ?? null, head: head ?? null, step: step ?? null, position: position ?? null };
  return sign === "*" ? { ...edit, multiply: number } : { ...edit, replace: number };
}

/** @param {string | null} text */
function wholeNumber(text) {
  return text !== null && /^\d{1,7}$/.test(text) ? Number(text) : null;
}

/** @param {string | null} text */
function wholeNumbers(text) {
  return (text ?? "").split(",").flatMap((part) => wholeNumber(part) ?? []);
}
