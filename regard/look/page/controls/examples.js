/** Example sentences as chips under the input. */

import { h, replace } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { perform } from "./alive.js";

/**
 * @param {HTMLElement} place
 * @param {import("../data/store.js").Store} store
 */
export function mountExamples(place, store) {
  store.listen((state, before) => {
    if (state.models === before.models && state.chosen === before.chosen && state.text === before.text) return;
    const named = state.chosen.map((name) => state.models.find((model) => model.name === name));
    const examples = named.find((model) => model?.examples?.length)?.examples ?? [];
    place.hidden = examples.length === 0;
    replace(place, h("span", { class: "hint" }, say("examples")), ...examples.map(({ kind, text }) => {
      const label = kind === "sample" ? text : say(/** @type {any} */ (`example_${kind}`));
      return h("button", { class: "pill", title: text, dir: "auto", "aria-pressed": state.text === text,
        click: () => perform(store, text) }, label);
    }));
  });
}
