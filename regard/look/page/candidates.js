/** Candidates of the current step; choosing one continues decoding from it. */

import { choose } from "./actions.js";
import { h, replace } from "./dom.js";
import { say } from "./language.js";
import { percent } from "./number.js";
import { unitsOf, unitAt } from "./record.js";
import { shown } from "./store.js";

/**
 * @param {HTMLElement} place
 * @param {import("./store.js").Store} store
 */
export function mountCandidates(place, store) {
  const body = h("div", {});
  place.append(h("h3", {}, say("candidates")), body);
  store.listen((state, before) => {
    if (state.step === before.step && state.kind === before.kind && shown(state) === shown(before)) return;
    const look = shown(state);
    place.hidden = look === null;
    if (look === null) return;
    const none = state.kind === "encoder-self" || state.step === null;
    const step = none ? null : Math.min(state.step ?? 0, look.steps.length - 1);
    if (step === null || !look.steps[step]) replace(body, h("p", { class: "hint" }, say("candidates_none")));
    else replace(body, ...panel(store, look, step));
  });
}

/**
 * @param {import("./store.js").Store} store
 * @param {import("./record.js").Look} look
 * @param {number} step
 */
function panel(store, look, step) {
  const { candidates, id } = look.steps[step];
  const words = unitsOf(look.target, "words", true);
  const { pieces } = words[unitAt(words, step)] ?? { pieces: [step] };
  return [
    pieces.length > 1 &&
      h("div", { class: "piece-tabs", role: "group", "aria-label": say("pieces") },
        pieces.map((piece) =>
          h("button", { class: "quiet", "aria-pressed": piece === step, click: () => store.set({ step: piece }) },
            look.steps[piece]?.piece ?? ""))),
    h("ol", { class: "bars" }, candidates.map((each) => candidate(store, step, each, each.id === id))),
    h("p", { class: "hint" }, say(store.state.live ? "candidates_hint" : "candidates_file")),
  ];
}

/**
 * @param {import("./store.js").Store} store
 * @param {number} step
 * @param {import("./record.js").Candidate} each
 * @param {boolean} said
 */
function candidate(store, step, each, said) {
  const bar = h("span", { class: "bar" });
  bar.style.setProperty("--share", String(each.probability));
  const parts = [
    h("span", { class: "name" }, h("bdi", {}, each.piece), said && h("small", {}, " " + say("said"))),
    bar,
    h("span", { class: "number" }, percent(each.probability)),
  ];
  const label = say("continue_with", { piece: each.piece, probability: percent(each.probability) });
  const click = () => choose(store, step, each.id);
  const row = store.state.live && !said
    ? h("button", { class: "candidate", "aria-label": label, title: label, click }, parts)
    : h("div", { class: "candidate" }, parts);
  return h("li", { class: said ? "said" : "" }, row);
}
