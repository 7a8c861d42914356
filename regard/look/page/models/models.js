/** The list of models: translators or image models. */

import { readers } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { decimal } from "../drawing/number.js";
import { say } from "../language/language.js";

/**
 * @param {HTMLElement} place a fieldset
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/store.js").Mode} mode
 */
export function mountModels(place, store, mode) {
  store.listen((state, before) => {
    if (state.models === before.models && state.chosen === before.chosen) return;
    const held = place.contains(document.activeElement) ? document.activeElement?.getAttribute("value") : null;
    place.hidden = readers(state, mode).length < 2;
    replace(place, h("legend", {}, say("models")), ...readers(state, mode).map((model) => choice(store, model)));
    if (held) [...place.querySelectorAll("input")].find((box) => box.value === held)?.focus();
  });
}

/**
 * @param {import("../data/store.js").Store} store
 * @param {import("../data/store.js").Served} model
 */
function choice(store, model) {
  const { chosen, models } = store.state;
  const box = h("input", { type: "checkbox", value: model.name, checked: chosen.includes(model.name) });
  box.addEventListener("change", () => {
    const on = /** @type {HTMLInputElement} */ (box).checked;
    const names = new Set(store.state.chosen);
    if (on) names.add(model.name);
    else names.delete(model.name);
    // In the server's order, not the order of clicks.
    store.set({ chosen: models.map((each) => each.name).filter((name) => names.has(name)) });
  });
  return h("label", { class: "model" }, box,
    h("span", {}, h("bdi", {}, model.name), " ", h("small", {}, about(model))));
}

/**
 * Its languages, if known and not in its name; for an image model, its task.
 * @param {import("../data/store.js").Served} model
 */
function about({ name, source, task, source_language, target_language }) {
  if (source === "image") return say(task === "caption" ? "captions" : "classifies");
  const known = [source_language, target_language].every((code) => code && code !== "und");
  return known && !name.startsWith(`${source_language}-${target_language}/`) ? `${source_language} → ${target_language}` : "";
}

/**
 * Its score, as `regard models` lists it.
 * @param {import("../data/store.js").Served | undefined} model
 */
export function figureOf(model) {
  if (!model?.figure) return null;
  const { metric, value } = model.figure;
  if (metric === "% accuracy") return say("accuracy", { share: `${decimal(value, 1)} %` });
  return `${decimal(value, 1)} ${metric}`;
}

/**
 * What its score was measured on.
 * @param {import("../data/store.js").Served | undefined} model
 */
export function measuredOn(model) {
  if (!model?.figure) return null;
  const { data } = model.figure;
  return data === "validation" ? say("measured_valid") : say("measured_test", { data });
}
