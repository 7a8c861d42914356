/** A tour of four steps that can be left at any time. */

import { h, stillness } from "../drawing/dom.js";
import { say } from "../language/language.js";

const STEPS = /** @type {const} */ ([
  ["tour_ribbons", ".ribbons, .picture"], ["tour_panel", ".main-panel"], ["tour_candidates", ".side"], ["tour_player", ".player"],
]);

/** The button that begins it. */
export function tourButton() {
  return h("button", { class: "quiet", click: () => show(0) }, say("tour"));
}

/** @param {number} number */
function show(number) {
  document.querySelector(".tour")?.remove();
  for (const each of document.querySelectorAll(".toured")) each.classList.remove("toured");
  if (number >= STEPS.length) return;
  const [phrase, selector] = STEPS[number];
  const place = [...document.querySelectorAll(selector)].find((each) => /** @type {HTMLElement} */ (each).offsetParent !== null);
  if (!place) return show(number + 1);
  place.classList.add("toured");
  place.scrollIntoView({ block: "nearest", behavior: stillness() ? "instant" : "smooth" });
  const last = number === STEPS.length - 1;
  const next = h("button", { class: "main", click: () => show(number + 1) }, say(last ? "tour_done" : "tour_next"));
  const card = h("div", { class: "tour", role: "dialog", "aria-label": say("tour") },
    h("p", {}, h("strong", {}, `${number + 1} / ${STEPS.length} `), say(phrase)),
    h("div", { class: "buttons" }, next, !last && h("button", { class: "quiet", click: () => show(STEPS.length) }, say("tour_skip"))));
  card.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(STEPS.length);
  });
  document.body.append(card);
  next.focus({ preventScroll: true });
}
