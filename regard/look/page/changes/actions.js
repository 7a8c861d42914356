/** User actions: translate, look at an image, open a model, change attention, choose a candidate, undo. */

import { abort, reason, request } from "../data/request.js";
import { NOWHERE, UNCHANGED, changeOf, focused, isShown, shown } from "../data/store.js";
import { say } from "../language/language.js";
import { announce, letGo, idsBefore, withEdits } from "./hand.js";

/**
 * @typedef {import("../data/store.js").Store} Store
 * @typedef {import("../data/store.js").Change} Change
 * @typedef {import("../data/record.js").Edit} Edit
 * @typedef {import("../data/record.js").Unit} Unit
 * @typedef {{focus?: string | null, change?: Change | null, keep?: boolean, reveal?: number | null}} Options
 *   `keep` what a link has put in view; `reveal`: see the state
 */

/**
 * Translate with every chosen model at once.
 * @param {Store} store
 * @param {string} text
 * @param {Options} [options]
 */
export async function translate(store, text, options) {
  await askAll(store, { mode: "text", text }, options);
}

/**
 * Send an image to every chosen captioner and classifier.
 * @param {Store} store
 * @param {import("../data/store.js").Upload} picture
 * @param {Options} [options]
 */
export async function see(store, picture, options) {
  await askAll(store, { mode: "image", picture }, options);
}

/**
 * Query the chosen models of this mode (text or image); results of the other mode stay.
 * @param {Store} store
 * @param {{mode: import("../data/store.js").Mode, text?: string, picture?: import("../data/store.js").Upload}} source
 * @param {Options} [options]
 */
async function askAll(store, source, { focus = null, change = null, keep = false, reveal = null } = {}) {
  const asking = { ...store.state, ...source };
  const chosen = asking.chosen.filter((name) => isShown(asking, name));
  const entries = Object.fromEntries(Object.entries(asking.entries).filter(([name]) => !isShown(asking, name)));
  for (const name of chosen) entries[name] = { status: "loading", history: [] };
  const nowhere = keep ? {} : { ...NOWHERE, notice: "", reveal, invitation: null };
  const wanted = focus ?? asking.focus;
  const opened = wanted !== null && chosen.includes(wanted) ? wanted : (chosen[0] ?? null);
  store.set({ ...source, entries, focus: opened, ...nowhere });
  const answers = chosen.map((name) => lookAt(store, name));
  if (reveal !== null && opened !== null) return void (await answers[chosen.indexOf(opened)]); // the show begins
  await Promise.all(answers);
  if (change && store.state.focus !== null) await apply(store, change);
}

/**
 * @param {Store} store
 * @param {string} name
 */
async function lookAt(store, name) {
  const waiting = store.state.entries[name];
  const outdated = () => store.state.entries[name] !== waiting; // replaced by a newer request
  try {
    const found = await request(store, name, UNCHANGED);
    if (found === null || outdated()) return;
    store.setEntry(name, { status: "ready", history: [], ...("label" in found ? { seen: found } : { original: found }) });
    const { focus, entries } = store.state;
    if (focus === null || entries[focus]?.status === "error") lookInto(store, name);
  } catch (error) {
    if (outdated()) return;
    store.setEntry(name, { status: "error", error: reason(error) });
    const ready = Object.keys(store.state.entries).find((other) => store.state.entries[other].status === "ready");
    if (store.state.focus === name && ready) lookInto(store, ready);
  }
}

/**
 * Open another model; a map it lacks falls back to its alignment.
 * @param {Store} store
 * @param {string} name
 */
export function lookInto(store, name) {
  if (store.state.focus === name) return;
  const map = { kind: "cross", layer: null, head: null, several: [], moment: null };
  const beside = store.state.beside === name ? store.state.focus : store.state.beside; // the two change places
  store.set({ focus: name, beside, ...map, ...NOWHERE, step: store.state.step, invitation: null });
}

/**
 * Request the translation under a change, and push it onto the history.
 * @param {Store} store
 * @param {Change} change
 */
export async function apply(store, change) {
  const name = /** @type {string} */ (store.state.focus);
  store.setEntry(name, { busy: true });
  try {
    const look = await request(store, name, change);
    if (look === null || "label" in look) return;
    const entry = store.state.entries[name];
    store.setEntry(name, { busy: false, history: [...entry.history, { change, look }], preview: null, tree: null });
    announce(store, look);
  } catch (error) {
    store.setEntry(name, { busy: false });
    store.set({ notice: reason(error) });
  }
}

/**
 * Change weights at a target step. The target before that step is forced as a prefix.
 * @param {Store} store
 * @param {Edit[]} edits
 */
export function edit(store, edits) {
  const change = withEdits(store, edits);
  if (change) apply(store, change);
}

/**
 * Mask or unmask a source word or image cell, and decode again from the start.
 * @param {Store} store
 * @param {Unit} unit
 */
export function toggleBan(store, unit) {
  const { ban, edits } = changeOf(store.state);
  const banned = unit.pieces.every((piece) => ban.includes(piece));
  const rest = ban.filter((piece) => !unit.pieces.includes(piece));
  moveTo(store, { prefix: [], ban: banned ? rest : [...rest, ...unit.pieces].sort((a, b) => a - b), edits });
}

/**
 * Force another candidate at a step, and decode from it.
 * @param {Store} store
 * @param {number} step
 * @param {number} id
 */
export function choose(store, step, id) {
  const look = shown(store.state);
  if (!look) return;
  store.set({ step });
  apply(store, { ...changeOf(store.state), prefix: [...idsBefore(look, step), id] });
}

/**
 * Force the first pieces of the translation, and decode from them.
 * @param {Store} store
 * @param {number[]} prefix
 */
export function continueFrom(store, prefix) {
  apply(store, { ...changeOf(store.state), prefix });
}

/**
 * Remove one of the changes.
 * @param {Store} store
 * @param {Edit} unwanted
 */
export function dropEdit(store, unwanted) {
  const { prefix, ban, edits } = changeOf(store.state);
  const kept = edits.filter((each) => each !== unwanted);
  moveTo(store, { prefix: kept.length === 0 ? [] : prefix, ban, edits: kept });
}

/** @param {Store} store */
export function dropPrefix(store) {
  moveTo(store, { ...changeOf(store.state), prefix: [] });
}

/**
 * Apply a change, or return to the original if the change is empty.
 * @param {Store} store
 * @param {Change} change
 */
function moveTo(store, change) {
  if (change.prefix.length + change.ban.length + change.edits.length > 0) apply(store, change);
  else reset(store);
}

/** @param {Store} store */
export function undo(store) {
  const entry = focused(store.state);
  if (!entry || entry.history.length === 0) return;
  goBack(store, entry.history.slice(0, -1));
}

/** @param {Store} store */
export function reset(store) {
  if (focused(store.state)) goBack(store, []);
}

/**
 * @param {Store} store
 * @param {import("../data/store.js").Entry["history"]} history
 */
function goBack(store, history) {
  const name = /** @type {string} */ (store.state.focus);
  abort(name);
  letGo(store);
  store.setEntry(name, { history, busy: false, tree: null });
  store.set({ notice: "", spoken: say("back_to", { text: shown(store.state)?.target.text ?? "" }) });
}
