/** The input form: a sentence or an image, and the models. */

import { lookInto } from "../changes/actions.js";
import { useKey } from "../data/api.js";
import { NOWHERE, isShown, readers } from "../data/store.js";
import { h, hide, put } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { mountModels } from "../models/models.js";
import { openAlive, perform } from "./alive.js";
import { mountExamples } from "./examples.js";
import { mountUpload } from "./upload.js";

/**
 * @typedef {import("../data/store.js").Store} Store
 * @typedef {import("../data/store.js").Mode} Mode
 */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 */
export function mountForm(place, store) {
  const text = h("div", {});
  const image = h("div", { hidden: true });
  place.append(text, image);
  mountSentence(text, store);
  mountUpload(image, store);
  store.listen((state) => {
    hide(text, state.mode !== "text");
    hide(image, state.mode !== "image");
  });
}

/**
 * Text or image, where the server has models of both.
 * @param {Store} store
 */
export function modeTabs(store) {
  const tab = (/** @type {Mode} */ mode) =>
    h("button", { "data-mode": mode, click: () => turn(store, mode) }, say(mode === "text" ? "text_mode" : "image_mode"));
  const tabs = h("div", { class: "segments modes", role: "group", "aria-label": say("mode"), hidden: true },
    tab("text"), tab("image"));
  store.listen((state) => {
    hide(tabs, readers(state, "text").length === 0 || readers(state, "image").length === 0);
    for (const each of tabs.children) {
      put(each, { "aria-pressed": String(each.getAttribute("data-mode") === state.mode) });
    }
  });
  return tabs;
}

/**
 * Switch between text and image; the results of the other mode are kept.
 * @param {Store} store
 * @param {Mode} mode
 */
function turn(store, mode) {
  if (mode === store.state.mode) return;
  const able = readers(store.state, mode).map((model) => model.name);
  const some = able.some((name) => store.state.chosen.includes(name)) ? [] : able.slice(0, 3);
  const chosen = [...store.state.chosen, ...some];
  store.set({ mode, chosen, focus: null, ...NOWHERE, notice: "", invitation: null });
  const ready = Object.keys(store.state.entries).find((name) => isShown(store.state, name));
  if (ready) lookInto(store, ready);
  else openAlive(store);
}

/**
 * @param {HTMLElement} place
 * @param {Store} store
 */
function mountSentence(place, store) {
  const sentence = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { id: "sentence", rows: 1, dir: "auto", placeholder: say("placeholder"), enterkeyhint: "go" })
  );
  const models = h("fieldset", { class: "models" });
  const examples = h("div", { class: "examples", role: "group", "aria-label": say("examples") });
  const form = h("form", { class: "ask" },
    h("label", { for: "sentence", class: "hidden-visually" }, say("sentence")),
    h("div", { class: "typing" }, sentence, h("button", { type: "submit", class: "main" }, say("translate"))),
    h("div", { class: "under" }, examples, models));
  place.append(form);
  mountModels(models, store, "text");
  mountExamples(examples, store);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = sentence.value.trim();
    if (!store.state.chosen.some((name) => isShown(store.state, name))) store.set({ notice: say("choose_model") });
    else if (text.length > (store.state.limits.max_look_characters ?? Infinity)) {
      store.set({ notice: say("too_long", { count: text.length, most: store.state.limits.max_look_characters }) });
    } else if (text) perform(store, text);
    else sentence.focus();
  });
  sentence.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  store.listen((state, before) => {
    if (state.text !== before.text) sentence.value = state.text;
  });
}

/**
 * Ask for an API key if the server needs one.
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
