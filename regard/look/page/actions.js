/** User actions: translate, look at an image, open a model, change attention, choose a candidate, undo. */

import { Refusal, askImage, askLook } from "./api.js";
import { say } from "./language.js";
import { UNCHANGED, changeOf, focused, isShown, shown } from "./store.js";

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {import("./store.js").Change} Change
 * @typedef {import("./record.js").Edit} Edit
 * @typedef {import("./record.js").Unit} Unit
 * @typedef {{focus?: string | null, change?: Change | null, keep?: boolean}} Options `keep` what a link has put in view
 */

/** Pending requests by model; a new one aborts the old one. */
const underWay = new Map();

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
 * @param {import("./store.js").Upload} picture
 * @param {Options} [options]
 */
export async function see(store, picture, options) {
  await askAll(store, { mode: "image", picture }, options);
}

/**
 * Query the chosen models of this mode (text or image); results of the other mode stay.
 * @param {Store} store
 * @param {{mode: import("./store.js").Mode, text?: string, picture?: import("./store.js").Upload}} source
 * @param {Options} [options]
 */
async function askAll(store, source, { focus = null, change = null, keep = false } = {}) {
  const asking = { ...store.state, ...source };
  const chosen = asking.chosen.filter((name) => isShown(asking, name));
  const entries = Object.fromEntries(Object.entries(asking.entries).filter(([name]) => !isShown(asking, name)));
  for (const name of chosen) entries[name] = { status: "loading", history: [] };
  const nowhere = keep ? {} : { step: null, position: null, pinned: false, playing: false, notice: "" };
  const wanted = focus ?? asking.focus;
  store.set({ ...source, entries, focus: wanted !== null && chosen.includes(wanted) ? wanted : null, ...nowhere });
  await Promise.all(chosen.map((name) => lookAt(store, name)));
  if (change && store.state.focus !== null) await apply(store, change);
  if (store.state.treeOpen) await growTree(store);
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
    if (store.state.focus === null) lookInto(store, name);
  } catch (error) {
    if (!outdated()) store.setEntry(name, { status: "error", error: reason(error) });
  }
}

/**
 * Open another model; a map it lacks falls back to its alignment.
 * @param {Store} store
 * @param {string} name
 */
export function lookInto(store, name) {
  if (store.state.focus === name) return;
  const map = { kind: "cross", layer: null, head: null, moment: null };
  store.set({ focus: name, ...map, position: null, pinned: false, playing: false });
  if (store.state.treeOpen) growTree(store);
}

/**
 * Request a look from a model; null if a newer request replaced it.
 * @param {Store} store
 * @param {string} name
 * @param {Change} change
 * @param {{tree?: boolean, beam?: number}} [options]
 */
async function request(store, name, change, options = {}) {
  const task = options.tree ? `tree ${name}` : name;
  underWay.get(task)?.abort();
  const controller = new AbortController();
  underWay.set(task, controller);
  try {
    const { models, picture, text } = store.state;
    const { signal } = controller;
    const seeing = models.find((model) => model.name === name)?.source === "image";
    if (seeing && picture) return await askImage(name, picture.blob, change, signal);
    return await askLook(name, text, change, { ...options, signal });
  } catch (error) {
    if (controller.signal.aborted) return null;
    throw error;
  } finally {
    if (underWay.get(task) === controller) underWay.delete(task);
  }
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
    store.setEntry(name, { busy: false, history: [...entry.history, { change, look }], tree: null });
    store.set({ notice: say("changed_to", { text: look.target.text }) });
    if (store.state.treeOpen) growTree(store);
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
  const look = shown(store.state);
  if (!look || edits.length === 0) return;
  const before = changeOf(store.state);
  const same = (/** @type {Edit} */ one, /** @type {Edit} */ other) =>
    one.kind === other.kind && one.layer === other.layer && one.head === other.head && one.step === other.step &&
    (one.position === other.position || other.position === null);
  const kept = before.edits.filter((old) => !edits.some((fresh) => same(old, fresh)));
  const everywhere = edits.some((each) => each.kind === "encoder-self");
  const first = everywhere ? 0 : Math.min(...edits.map((each) => each.step ?? 0));
  apply(store, { ...before, prefix: idsBefore(look, first), edits: [...kept, ...edits] });
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
 * @param {import("./store.js").Entry["history"]} history
 */
function goBack(store, history) {
  const name = /** @type {string} */ (store.state.focus);
  underWay.get(name)?.abort();
  store.setEntry(name, { history, busy: false, tree: null });
  store.set({ notice: say("back_to", { text: shown(store.state)?.target.text ?? "" }) });
  if (store.state.treeOpen) growTree(store);
}

/**
 * Run the beam search again with its tree.
 * @param {Store} store
 */
export async function growTree(store) {
  const { focus, live, beam } = store.state;
  if (focus === null || !live || !focused(store.state) || shown(store.state)?.image) return;
  try {
    const look = await request(store, focus, changeOf(store.state), { tree: true, beam });
    if (look !== null && !("label" in look)) store.setEntry(focus, { tree: look });
  } catch (error) {
    store.set({ notice: reason(error) });
  }
}

/**
 * The target prefix before a step.
 * @param {import("./record.js").Look} look
 * @param {number} step
 */
function idsBefore(look, step) {
  return look.steps.slice(0, step).map((each) => each.id);
}

/** @param {unknown} error */
export function reason(error) {
  if (error instanceof Refusal) {
    if (error.status === 0) return say("no_answer");
    return error.status === 429 || error.status === 503 ? `${say("busy")} ${error.message}` : error.message;
  }
  return String(error);
}
