/** The sentence and the models to translate it with. */

import { translate } from "./actions.js";
import { useKey } from "./api.js";
import { h, replace } from "./dom.js";
import { say } from "./language.js";

/**
 * @param {HTMLElement} place
 * @param {import("./store.js").Store} store
 */
export function mountForm(place, store) {
  const sentence = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { id: "sentence", rows: 2, dir: "auto", placeholder: say("placeholder"), enterkeyhint: "go" })
  );
  const models = h("fieldset", { class: "models" });
  const welcome = h("p", { class: "welcome" }, say("welcome"));
  const form = h("form", { class: "ask" },
    h("label", { for: "sentence", class: "hidden-visually" }, say("sentence")),
    h("div", { class: "typing" }, sentence, h("button", { type: "submit", class: "main" }, say("translate"))),
    models);
  place.append(form, welcome);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = sentence.value.trim();
    if (store.state.chosen.length === 0) store.set({ notice: say("choose_model") });
    else if (text) translate(store, text);
    else sentence.focus();
  });
  sentence.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  store.listen((state, before) => {
    if (state.text !== before.text) sentence.value = state.text;
    welcome.hidden = Object.keys(state.entries).length > 0;
    if (state.models !== before.models || state.chosen !== before.chosen) {
      const held = document.activeElement?.getAttribute("value");
      replace(models, h("legend", {}, say("models")), ...state.models.map((model) => choice(store, model)));
      if (held) [...models.querySelectorAll("input")].find((box) => box.value === held)?.focus();
    }
  });
}

/**
 * @param {import("./store.js").Store} store
 * @param {import("./store.js").Served} model
 */
function choice(store, model) {
  const { chosen, models } = store.state;
  const box = h("input", { type: "checkbox", value: model.name, checked: chosen.includes(model.name) });
  box.addEventListener("change", () => {
    const on = /** @type {HTMLInputElement} */ (box).checked;
    const names = new Set(store.state.chosen);
    if (on) names.add(model.name);
    else names.delete(model.name);
    // As the server lists them, whatever the order of the clicks.
    store.set({ chosen: models.map((each) => each.name).filter((name) => names.has(name)) });
  });
  const known = [model.source_language, model.target_language].every((code) => code && code !== "und");
  const pair = known ? `${model.source_language} → ${model.target_language}` : "";
  return h("label", { class: "model" }, box, h("span", {}, h("bdi", {}, model.name), " ", h("small", {}, pair)));
}

/**
 * Ask for a key, where the server wants one.
 * @param {HTMLElement} place
 * @param {() => void} again
 */
export function askKey(place, again) {
  const field = /** @type {HTMLInputElement} */ (h("input", { type: "password", id: "key", autocomplete: "off" }));
  const form = h("form", { class: "key" },
    h("p", {}, say("key_needed")),
    h("label", { for: "key" }, say("key")), field, h("button", { type: "submit", class: "main" }, say("use_key")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(field.value);
    form.remove();
    again();
  });
  place.append(form);
  field.focus();
}
