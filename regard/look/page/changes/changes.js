/** Compare the translation under a change with the original: words, probabilities, undo. */

import { common } from "../data/diff.js";
import { sidesOf, unitsOf } from "../data/record.js";
import { changeOf, focused } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { cellName } from "../drawing/label.js";
import { change as difference, decimal, percent } from "../drawing/number.js";
import { say } from "../language/language.js";
import { dropEdit, dropPrefix, toggleBan, undo } from "./actions.js";

/**
 * @typedef {import("../data/record.js").Look} Look
 * @typedef {import("../data/store.js").Store} Store
 */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 */
export function mountChanges(place, store) {
  const chips = h("ul", { class: "chips" });
  const body = h("div", {});
  const busy = h("span", { class: "waiting" });
  place.append(h("div", { class: "row" }, h("h3", {}, say("changes")), busy), chips, body);
  store.listen((state, before) => {
    const entry = focused(state);
    if (entry === focused(before)) return;
    busy.textContent = entry?.busy ? say("working") : "";
    const last = entry?.preview ?? entry?.history.at(-1);
    place.hidden = !entry || (!last && !entry.busy);
    if (!entry?.original || !last) return void (replace(chips), replace(body));
    replace(chips, ...listChanges(store, last.look));
    replace(body, ...compare(entry.original, last.look));
  });
  document.addEventListener("keydown", (event) => {
    const typing = /** @type {Element} */ (event.target).closest?.("textarea, input[type=text]");
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !typing && !place.hidden) undo(store);
  });
}

/**
 * @param {Store} store
 * @param {Look} look
 */
function listChanges(store, look) {
  const { prefix, ban, edits } = changeOf(store.state);
  const chips = places(look)
    .filter((unit) => unit.pieces.every((piece) => ban.includes(piece)))
    .map((unit) => chip(say("banned", { word: unit.label }), () => toggleBan(store, unit)));
  // The prefix before an edit is implied; do not list it.
  const implied = edits.some((edit) => edit.step === prefix.length);
  if (prefix.length > 0 && !implied) {
    const text = look.steps.slice(0, prefix.length).map((step) => step.piece).join("").replaceAll("▁", " ").trim();
    chips.push(chip(say("forced", { text }), () => dropPrefix(store)));
  }
  for (const edit of edits) {
    if (edit.step === null && edit.position === null && edit.layer !== null && edit.head !== null) {
      const off = say("head_off", { layer: edit.layer + 1, head: edit.head + 1 });
      chips.push(chip(off, () => dropEdit(store, edit)));
      continue;
    }
    const { rows, columns } = sidesOf(look, edit.kind);
    const row = rows.pieces[edit.step ?? 0]?.text ?? "…";
    const column = edit.position === null ? say("everything") : (columns.pieces[edit.position]?.text ?? "…");
    const multiplied = edit.multiply !== null && edit.multiply !== undefined;
    const value = decimal(Number(multiplied ? edit.multiply : edit.replace));
    const phrase = edit.kind === "encoder-self" ? "encoder_row" : "edited";
    chips.push(chip(say(phrase, { row, column, sign: multiplied ? "×" : "=", value }), () => dropEdit(store, edit)));
  }
  return chips;
}

/**
 * Names of what can be masked: source words or image cells.
 * @param {Look} look
 * @returns {import("../data/record.js").Unit[]}
 */
function places({ image, source }) {
  if (!image) return unitsOf(source, "words", true);
  return Array.from({ length: image.rows * image.columns }, (_, position) =>
    ({ label: cellName(position, image.columns), pieces: [position], special: false }));
}

/**
 * @param {string} what
 * @param {() => void} drop
 */
function chip(what, drop) {
  return h("li", { class: "chip" }, what,
    h("button", { "aria-label": say("drop", { what }), title: say("drop", { what }), click: drop }, "×"));
}

/**
 * @param {Look} original
 * @param {Look} now
 */
function compare(original, now) {
  const same = original.target.text === now.target.text;
  return [
    h("dl", { class: "versions" },
      version(say("original"), original, now.target.words, "was"),
      version(say("now"), now, original.target.words, "new")),
    same && h("p", { class: "hint" }, say("same_translation")),
    h("div", { class: "scroll" }, table(original, now)),
  ];
}

/**
 * @param {string} name
 * @param {Look} look
 * @param {string[]} others the words of the other version
 * @param {string} key
 */
function version(name, look, others, key) {
  const kept = new Set(common(look.target.words, others).map(([index]) => index));
  return h("div", {},
    h("dt", {}, name),
    h("dd", { dir: "auto" },
      look.target.words.flatMap((word, index) => [kept.has(index) ? word : h("mark", { class: key }, word), " "]),
      h("span", { class: "figures" }, say("mean_probability", { share: percent(look.mean_probability ?? 0) }))));
}

/**
 * A table of steps before and now, from the first difference. It shows the change in probability of the original piece
 * while both prefixes are equal.
 * @param {Look} original
 * @param {Look} now
 */
function table(original, now) {
  const rows = [];
  let together = true;
  for (let t = 0; t < Math.max(original.steps.length, now.steps.length); t++) {
    const was = original.steps[t];
    const is = now.steps[t];
    const still = together && was && is ? probabilityOf(is, was.id) : null;
    const shift = still === null || !was ? 0 : still.value - was.probability;
    const changed = Math.abs(shift) >= 0.0005;
    if (together && was?.id === is?.id && !changed && rows.length === 0) continue; // no difference yet
    const told = still === null ? "" : `${still.exact ? "" : "≤ "}${difference(shift)}`;
    rows.push(
      h("tr", { class: was?.id === is?.id ? "" : "differs" },
        h("th", { scope: "row" }, t + 1),
        h("td", {}, said(was)),
        h("td", {}, said(is)),
        h("td", { class: `number ${!changed ? "" : shift < 0 ? "fell" : "rose"}` }, told)));
    together = together && was?.id === is?.id;
  }
  if (rows.length === 0) return null;
  const heads = [say("step_column"), say("before"), say("now"), say("difference")];
  return h("table", { class: "steps" },
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows));
}

/** @param {import("../data/record.js").Step | undefined} step */
function said(step) {
  if (!step) return "";
  return [h("bdi", {}, step.piece), " ", h("span", { class: "number" }, percent(step.probability))];
}

/**
 * The probability of a piece at a step: exact, or bounded by that of the last candidate in the record.
 * @param {import("../data/record.js").Step} step
 * @param {number} id
 */
function probabilityOf(step, id) {
  const found = [step, ...step.candidates].find((each) => each.id === id);
  if (found) return { value: found.probability, exact: true };
  const last = step.candidates.at(-1);
  return last ? { value: last.probability, exact: false } : null;
}
