/** User actions: translate, look at an image, open a model, change attention, choose a candidate, undo. */

import { Refusal, askImage, askLook } from "./api.js";
import { say } from "./language.js";
import { NOWHERE, UNCHANGED, changeOf, focused, isShown, shown } from "./store.js";

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {import("./store.js").Change} Change
 * @typedef {import("./record.js").Edit} Edit
 * @typedef {import("./record.js").Unit} Unit
 * @typedef {{focus?: string | null, change?: Change | null, keep?: boolean, reveal?: number | null}} Options
 *   `keep` what a link has put in view; `reveal`: see the state
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
async function askAll(store, source, { focus = null, change = null, keep = false, reveal = null } = {}) {
  const asking = { ...store.state, ...source };
  const chosen = asking.chosen.filter((name) => isShown(asking, name));
  const entries = Object.fromEntries(Object.entries(asking.entries).filter(([name]) => !isShown(asking, name)));
  for (const name of chosen) entries[name] = { status: "loading", history: [] };
  const nowhere = keep ? {} : { ...NOWHERE, notice: "", reveal, invitation: null };
  const wanted = focus ?? asking.focus;
  store.set({ ...source, entries, focus: wanted !== null && chosen.includes(wanted) ? wanted : null, ...nowhere });
  await Promise.all(chosen.map((name) => lookAt(store, name)));
  if (change && store.state.focus !== null) await apply(store, change);
  if (store.state.panel === "beam") await growTree(store);
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
  store.set({ focus: name, ...map, ...NOWHERE, step: store.state.step, invitation: null });
  if (store.state.panel === "beam") growTree(store);
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
    store.setEntry(name, { busy: false, history: [...entry.history, { change, look }], preview: null, tree: null });
    announce(store, look);
  } catch (error) {
    store.setEntry(name, { busy: false });
    store.set({ notice: reason(error) });
  }
}

/**
 * @param {Store} store
 * @param {import("./record.js").Look} look
 */
function announce(store, look) {
  store.set({ spoken: say("changed_to", { text: look.target.text }), invitation: null });
  if (store.state.panel === "beam") growTree(store);
}

/** What is wanted of a model while a ribbon or a slider is in hand; one request is under way, the newest comes next. */
/** @type {Map<string, {want: Change | null, busy: boolean, keep: boolean}>} */
const inHand = new Map();

/**
 * Show the translation under a change that is still in hand. Answers that nobody waits for any more are dropped.
 * @param {Store} store
 * @param {Change} change
 */
export async function preview(store, change) {
  const name = /** @type {string} */ (store.state.focus);
  const task = inHand.get(name) ?? { want: null, busy: false, keep: false };
  inHand.set(name, task);
  task.want = change;
  if (task.busy) return;
  task.busy = true;
  try {
    for (let asked = null; task.want && task.want !== asked; ) {
      asked = /** @type {Change} */ (task.want);
      const look = await request(store, name, asked);
      if (look === null || "label" in look || task.want === null || !store.state.entries[name]?.original) break;
      if (task.want === asked || !task.keep) store.setEntry(name, { preview: { change: asked, look } });
    }
  } catch (error) {
    task.keep = false;
    store.setEntry(name, { preview: null });
    store.set({ notice: reason(error) });
  } finally {
    task.busy = false;
    if (task.keep) commit(store);
  }
}

/**
 * Keep the change in hand; it becomes one entry of the history.
 * @param {Store} store
 */
export function commit(store) {
  const name = /** @type {string} */ (store.state.focus);
  const task = inHand.get(name);
  if (task?.busy) return void (task.keep = true);
  inHand.delete(name);
  const entry = store.state.entries[name];
  if (!entry?.preview) return;
  const { look } = entry.preview;
  store.setEntry(name, { preview: null, history: [...entry.history, entry.preview], tree: null });
  announce(store, look);
}

/**
 * Let go of the change in hand.
 * @param {Store} store
 */
export function letGo(store) {
  const name = /** @type {string} */ (store.state.focus);
  const task = inHand.get(name);
  if (task) Object.assign(task, { want: null, keep: false });
  if (store.state.entries[name]?.preview) store.setEntry(name, { preview: null });
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
 * The committed change and these edits.
 * @param {Store} store
 * @param {Edit[]} edits
 * @returns {Change | null}
 */
export function withEdits(store, edits) {
  const last = focused(store.state)?.history.at(-1);
  const look = last?.look ?? focused(store.state)?.original;
  if (!look || edits.length === 0) return null;
  const before = last?.change ?? UNCHANGED;
  const same = (/** @type {Edit} */ one, /** @type {Edit} */ other) =>
    one.kind === other.kind && one.layer === other.layer && one.head === other.head && one.step === other.step &&
    (one.position === other.position || other.position === null);
  const kept = before.edits.filter((old) => !edits.some((fresh) => same(old, fresh)));
  const everywhere = edits.some((each) => each.kind === "encoder-self");
  const first = everywhere ? 0 : Math.min(...edits.map((each) => each.step ?? 0));
  return { ...before, prefix: idsBefore(look, first), edits: [...kept, ...edits] };
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
 * @param {import("./store.js").Entry["history"]} history
 */
function goBack(store, history) {
  const name = /** @type {string} */ (store.state.focus);
  underWay.get(name)?.abort();
  letGo(store);
  store.setEntry(name, { history, busy: false, tree: null });
  store.set({ notice: "", spoken: say("back_to", { text: shown(store.state)?.target.text ?? "" }) });
  if (store.state.panel === "beam") growTree(store);
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
