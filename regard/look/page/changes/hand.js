/** A change that is still in hand: previewed while a ribbon or a slider moves, kept or let go at the end. */

import { reason, request } from "../data/request.js";
import { UNCHANGED, focused } from "../data/store.js";
import { say } from "../language/language.js";

/**
 * @typedef {import("../data/store.js").Store} Store
 * @typedef {import("../data/store.js").Change} Change
 * @typedef {import("../data/record.js").Edit} Edit
 */

/**
 * @param {Store} store
 * @param {import("../data/record.js").Look} look
 */
export function announce(store, look) {
  store.set({ spoken: say("changed_to", { text: look.target.text }), invitation: null });
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
 * The target prefix before a step.
 * @param {import("../data/record.js").Look} look
 * @param {number} step
 */
export function idsBefore(look, step) {
  return look.steps.slice(0, step).map((each) => each.id);
}

