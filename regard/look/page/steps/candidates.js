/** Candidates of the current step; choosing one continues decoding from it. The bars move when a change moves them. */

import { choose } from "../changes/actions.js";
import { unitsOf, unitAt } from "../data/record.js";
import { shown } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { explain } from "../drawing/explain.js";
import { percent } from "../drawing/number.js";
import { say } from "../language/language.js";

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountCandidates(place, store) {
  const title = h("h3", {});
  const tabs = h("div", { class: "piece-tabs", role: "group", "aria-label": say("pieces") });
  const list = h("ol", { class: "bars" });
  const hint = h("p", { class: "hint" });
  place.append(title, tabs, list, h("div", { class: "terms" }, hint, explain("piece")));
  store.listen((state, before) => {
    if (state.step === before.step && state.kind === before.kind && shown(state) === shown(before)) return;
    const look = shown(state);
    place.hidden = look === null || look.steps.length === 0;
    if (look === null || place.hidden) return;
    const step = state.kind === "encoder-self" ? 0 : Math.min(state.step ?? 0, look.steps.length - 1);
    title.textContent = say("candidates", { piece: look.steps[step].piece });
    hint.textContent = say(state.live ? "candidates_hint" : "candidates_file");
    const words = unitsOf(look.target, "words", true);
    const { pieces } = words[unitAt(words, step)] ?? { pieces: [step] };
    tabs.hidden = pieces.length < 2;
    replace(tabs, ...pieces.map((piece) =>
      h("button", { class: "pill", "aria-pressed": piece === step, click: () => store.set({ step: piece, lit: true }) },
        look.steps[piece]?.piece ?? "")));
    update(list, store, look, step);
  });
}

/**
 * Keep the bar of a candidate that stays, so that it moves to its new length.
 * @param {HTMLElement} list
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/record.js").Look} look
 * @param {number} step
 */
function update(list, store, look, step) {
  const { candidates, id } = look.steps[step];
  const same = list.dataset.step === String(step);
  list.dataset.step = String(step);
  const known = new Map(same ? [...list.children].map((each) => [/** @type {HTMLElement} */ (each).dataset.id, each]) : []);
  list.replaceChildren(...candidates.map((each) => {
    const row = candidate(store, step, each, each.id === id);
    const old = known.get(String(each.id))?.querySelector(".bar");
    const fresh = /** @type {HTMLElement} */ (row.querySelector(".bar"));
    if (old) fresh.replaceWith(old);
    const bar = /** @type {HTMLElement} */ (old ?? fresh);
    bar.style.setProperty("--share", String(each.probability));
    return row;
  }));
}

/**
 * @param {import("../data/store.js").Store} store
 * @param {number} step
 * @param {import("../data/record.js").Candidate} each
 * @param {boolean} said
 */
function candidate(store, step, each, said) {
  const parts = [
    h("span", { class: "name" }, h("bdi", {}, each.piece), said && h("span", { class: "hidden-visually" }, " " + say("said"))),
    h("span", { class: "bar" }),
    h("span", { class: "number" }, percent(each.probability)),
  ];
  const label = say("continue_with", { piece: each.piece, probability: percent(each.probability) });
  const click = () => choose(store, step, each.id);
  const row = store.state.live && !said
    ? h("button", { class: "candidate", "aria-label": label, title: label, click }, parts)
    : h("div", { class: "candidate" }, parts);
  return h("li", { class: said ? "said" : "", "data-id": each.id }, row);
}
