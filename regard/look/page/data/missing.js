/** The parts of a long sentence's record, asked for when they are looked at: the maps of all heads, the steps. */

import { askLook } from "./api.js";
import { reason } from "./request.js";
import { changeOf, focused, shown } from "./store.js";

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {import("./record.js").Look} Look
 */

/**
 * Which part the view needs and the record lacks.
 * @param {import("./store.js").State} state
 * @param {Look} look
 */
function needed({ kind, panel }, look) {
  if (!(kind in look.attention) && kind in (look.model.attention ?? {})) return kind;
  const traced = look.steps.some((each) => each.attention.length > 0);
  return panel === "steps" && !traced && look.alignment !== null ? "steps" : null;
}

/**
 * Complete the shown record as its parts come into view.
 * @param {Store} store
 */
export function followParts(store) {
  /** @type {WeakMap<Look, Set<string>>} what was asked for, answered or not */
  const asked = new WeakMap();
  store.listen((state) => {
    const look = shown(state);
    const entry = focused(state);
    if (!state.live || !look || !entry || look.image || entry.preview || state.reveal !== null || look.steps.length === 0) return;
    const part = needed(state, look);
    const known = asked.get(look) ?? new Set();
    if (part === null || known.has(part)) return;
    asked.set(look, known.add(part));
    complete(store, look, part, asked);
  });
}

/**
 * @param {Store} store
 * @param {Look} look
 * @param {string} part
 * @param {WeakMap<Look, Set<string>>} asked
 */
async function complete(store, look, part, asked) {
  const name = /** @type {string} */ (store.state.focus);
  // the same translation again: all of it is the prefix, so nothing is searched
  const change = { ...changeOf(store.state), prefix: look.steps.slice(0, -1).map((each) => each.id) };
  try {
    const found = await askLook(name, look.source.text, change, { parts: [part] });
    const whole = {
      ...look, attention: { ...look.attention, ...found.attention }, measures: { ...look.measures, ...found.measures },
      ...(part === "steps" ? { steps: found.steps, keys: found.keys } : {}),
    };
    asked.set(whole, asked.get(look) ?? new Set());
    const entry = store.state.entries[name];
    if (!entry) return;
    if (entry.original === look) store.setEntry(name, { original: whole });
    else {
      const history = entry.history.map((each) => (each.look === look ? { ...each, look: whole } : each));
      store.setEntry(name, { history });
    }
  } catch (error) {
    store.set({ notice: reason(error) });
  }
}
