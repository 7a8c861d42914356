/** The first moments of a visit: a sentence is translated word by word, then one change is proposed that shows something. */

import { moveEdits } from "../attention/grab.js";
import { edit, translate } from "../changes/actions.js";
import { askLook } from "../data/api.js";
import { replaced } from "../data/diff.js";
import { probabilityOf, unitAt } from "../data/record.js";
import { UNCHANGED, shown } from "../data/store.js";
import { tableOf } from "../data/table.js";
import { h, replace, stillness } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { draw } from "./upload.js";

const WORD_TIME = 260; // milliseconds between two words
const MOST_TRIALS = 14; // changes tried to find one that is worth proposing
const STRONG = 0.4; // the least weight of a ribbon that is worth pulling

/**
 * @typedef {import("../data/store.js").Store} Store
 * @typedef {import("../data/store.js").Invitation} Invitation
 * @typedef {import("../data/table.js").Table} Table
 */

/**
 * Begin with an example: a sentence of the first model, or an image.
 * @param {Store} store
 */
export async function openAlive(store) {
  const { models, chosen, mode } = store.state;
  const of = (/** @type {string} */ name) => models.find((model) => model.name === name);
  if (mode === "image") {
    const sample = chosen.map(of).find((model) => model?.source === "image" && model.sample)?.sample;
    if (sample) await draw(store, `${sample}.7`);
    return;
  }
  const example = chosen.map(of).find((model) => model?.examples?.length)?.examples?.[0];
  if (example) await perform(store, example.text);
}

/**
 * Translate a sentence and write it word by word, each word with its ribbon.
 * @param {Store} store
 * @param {string} text
 */
export async function perform(store, text) {
  if (!stillness()) store.set({ reveal: 0 });
  await translate(store, text, { reveal: store.state.reveal });
  const look = shown(store.state);
  const table = tableOf(store.state);
  if (!look || !table) return void store.set({ reveal: null });
  const found = propose(store, table);
  if (!stillness()) await write(store, look, table.rows.length);
  if (shown(store.state) === look) store.set({ reveal: null });
  const invitation = await found;
  const { focus, entries, text: now } = store.state;
  // heads may have come since, or the visitor has found something else to do
  if (invitation && now === text && focus !== null && entries[focus]?.history.length === 0) store.set({ invitation });
}

/**
 * @param {Store} store
 * @param {import("../data/record.js").Look} look
 * @param {number} count
 */
function write(store, look, count) {
  return new Promise((done) => {
    const next = () => {
      const { reveal } = store.state;
      if (reveal === null || shown(store.state) !== look || reveal >= count) return done(undefined);
      store.set({ reveal: reveal + 1 });
      setTimeout(next, WORD_TIME);
    };
    setTimeout(next, WORD_TIME);
  });
}

/**
 * Try changes until one replaces exactly its own word by what the sentence says elsewhere.
 * @param {Store} store
 * @param {Table} table
 * @returns {Promise<Invitation | null>}
 */
async function propose(store, table) {
  const { focus, text, live } = store.state;
  if (!live || focus === null || table.look.image) return null;
  const pairs = promising(table).slice(0, MOST_TRIALS);
  for (const { row, column, to, said } of pairs) {
    const step = table.rows[row].pieces[0];
    const edits = moveEdits(table, row, column, to);
    const change = { ...UNCHANGED, prefix: table.look.steps.slice(0, step).map((each) => each.id), edits };
    try {
      const look = await askLook(focus, text, change);
      if (store.state.focus !== focus || store.state.text !== text) return null;
      const now = tableOf(store.state, look);
      const told = replaced((now?.rows ?? []).map((unit) => unit.label), table.rows.map((unit) => unit.label));
      const only = told.every((each, t) => each.changed === (t === row) && (t === row || each.old === ""));
      const word = now?.rows[row];
      if (only && word && alike(word.label, said) && probabilityOf(look, word) > 0.2) {
        const names = { word: table.rows[row].label, source: table.columns[column].label, other: table.columns[to].label };
        return { step, from: table.columns[column].pieces[0], to: table.columns[to].pieces[0], ...names };
      }
    } catch {
      return null; // an invitation is no reason to trouble anyone
    }
  }
  return null;
}

/**
 * Ribbons worth pulling, the last words first, each to a source word that another target word says.
 * @param {Table} table
 */
function promising(table) {
  const strongest = table.weights.map((row) => row.indexOf(Math.max(...row)));
  const content = (/** @type {number} */ t) => /\p{L}{3}/u.test(table.rows[t].label) && table.weights[t][strongest[t]] >= STRONG;
  const rows = table.rows.map((_, t) => t).filter(content);
  return rows.toReversed().flatMap((row) => rows.filter((t) => strongest[t] !== strongest[row]).map((t) => ({
    row, column: strongest[row], to: strongest[t], said: table.rows[t].label,
  })));
}

/**
 * Whether two words begin alike: “heureux” and “heureuse”.
 * @param {string} one
 * @param {string} other
 */
function alike(one, other) {
  const [left, right] = [one.toLowerCase(), other.toLowerCase()];
  let same = 0;
  while (same < Math.min(left.length, right.length) && left[same] === right[same]) same += 1;
  return same > 1 && same >= 0.6 * Math.max(left.length, right.length); // not “car” and “carried”
}

/**
 * The line that invites to the change, and a button that makes it.
 * @param {HTMLElement} place
 * @param {Store} store
 */
export function mountInvitation(place, store) {
  const line = h("p", {});
  const button = h("button", { class: "quiet", click: () => follow(store) }, say("show_me"));
  place.append(line, button);
  store.listen((state, before) => {
    if (state.invitation === before.invitation) return;
    place.hidden = state.invitation === null;
    if (!state.invitation) return;
    const [lead, rest] = say("invite").split("{word}");
    const [middle, end] = rest.split("{other}");
    const { word, source, other } = state.invitation;
    replace(line, lead, h("strong", {}, word), middle.replace("{source}", source), h("strong", {}, other), end);
  });
}

/**
 * Make the proposed change.
 * @param {Store} store
 */
function follow(store) {
  const { invitation } = store.state;
  const table = tableOf(store.state);
  if (!invitation || !table) return;
  const row = unitAt(table.rows, invitation.step);
  edit(store, moveEdits(table, row, unitAt(table.columns, invitation.from), unitAt(table.columns, invitation.to)));
}
