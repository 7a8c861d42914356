/** Build the page: live with a server, or from the records embedded in the file. */

import { reason, translate } from "./actions.js";
import { askModels, Refusal } from "./api.js";
import { mountCandidates } from "./candidates.js";
import { mountCards } from "./cards.js";
import { mountChanges } from "./changes.js";
import { h } from "./dom.js";
import { keepJson, pictureButtons } from "./download.js";
import { mountFixed } from "./fixed.js";
import { askKey, mountForm } from "./form.js";
import { mountHeads } from "./heads.js";
import { chooseLanguage, say } from "./language.js";
import { readLink, writeLink } from "./link.js";
import { mountMatrix } from "./matrix.js";
import { mountPicture } from "./picture.js";
import { mountPlayer } from "./player.js";
import { hasAttention } from "./record.js";
import { mountRibbons } from "./ribbons.js";
import { mountSeen } from "./seen.js";
import { START, Store, readers, seenIn, shown } from "./store.js";
import { followTable } from "./table.js";
import { mountTime } from "./time.js";
import { mountTop } from "./top.js";
import { mountTree } from "./tree.js";
import { draw } from "./upload.js";
import { mountWeight } from "./weight.js";

/**
 * @param {HTMLElement} page
 * @param {Store} store
 */
function build(page, store) {
  const tables = followTable(store);
  const top = h("header", { class: "top" });
  const form = h("section", { class: "part form", hidden: !store.state.live });
  const notice = h("p", { class: "notice", role: "status", "aria-live": "polite" });
  const cards = h("section", { class: "part", "aria-labelledby": "cards-title", hidden: true });
  const [heads, ribbons, fixed, matrix, candidates, weight, changes, player, tree, time, picture, seen] = [
    "heads-part", "ribbons-part", "fixed-part", "matrix-part", "panel", "panel", "panel changes", "player", "tree-part",
    "time-part", "picture-part", "seen-part",
  ].map((key) => h("section", { class: `part ${key}`, hidden: true }));
  const title = h("h2", { dir: "auto" });
  const inside = h("div", { class: "inside", hidden: true },
    h("div", { class: "inside-head" }, title, keeping(store, [matrix, picture, seen])),
    heads, time, picture, seen, ribbons, fixed,
    h("div", { class: "columns" }, matrix, h("div", { class: "side" }, candidates, weight, changes)),
    player, tree);
  const note = h("p", {}, store.state.live ? say("attention_note") : say("file_note"));
  page.replaceChildren(top, h("main", {}, form, notice, cards, inside), h("footer", {}, note));
  mountTop(top, store.state.live);
  if (store.state.live) mountForm(form, store);
  mountCards(cards, store);
  mountHeads(heads, store);
  mountTime(time, store);
  mountPicture(picture, store);
  mountSeen(seen, store);
  mountRibbons(ribbons, store, tables);
  mountFixed(fixed, store);
  mountMatrix(matrix, store, tables);
  mountCandidates(candidates, store);
  mountWeight(weight, store, tables);
  mountChanges(changes, store);
  mountPlayer(player, store);
  mountTree(tree, store);
  store.listen((state) => {
    inside.hidden = shown(state) === null && seenIn(state) === null;
    title.textContent = state.focus === null ? "" : say("inside", { name: state.focus });
    if (notice.textContent !== state.notice) notice.textContent = state.notice; // so a screen reader announces it once
  });
  return form;
}

/**
 * Copy a link, download the record, download the picture.
 * @param {Store} store
 * @param {HTMLElement[]} parts one of which has the picture
 */
function keeping(store, parts) {
  const name = () => `${store.state.focus ?? "look"}-attention`;
  /** @returns {SVGElement | null} */
  const drawn = () => parts.find((part) => !part.hidden)?.querySelector("svg.matrix, svg.cells") ?? null;
  const pictures = pictureButtons(drawn, name);
  pictures.append(h("button", { class: "quiet", "aria-label": `${say("download")} JSON`,
    click: () => keepJson(shown(store.state) ?? seenIn(store.state), name()) }, "JSON"));
  store.listen((state) => {
    const look = shown(state);
    const bare = look !== null && !hasAttention(look);
    pictures.querySelectorAll("button").forEach((button, index) => (button.hidden = bare && index < 2));
  });
  const copy = h("button", { class: "quiet", click: () => copyLink(store) }, say("copy_link"));
  copy.hidden = location.protocol === "about:";
  return h("div", { class: "buttons" }, copy, pictures);
}

/** @param {Store} store */
async function copyLink(store) {
  const address = new URL(location.href);
  address.hash = writeLink(store.state);
  try {
    await navigator.clipboard.writeText(address.href);
    const { mode, picture } = store.state;
    store.set({ notice: say(mode === "image" && !picture?.sample ? "copied_without_image" : "copied") });
  } catch {
    store.set({ notice: `${say("copy_this")} ${address.href}` });
  }
}

/**
 * Update the address when the view changes.
 * @param {Store} store
 */
function followAddress(store) {
  if (location.protocol === "about:") return;
  let timer = 0;
  let written = location.hash.slice(1);
  store.listen(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      written = writeLink(store.state);
      history.replaceState(null, "", `#${written}`);
    }, 250);
  });
  addEventListener("hashchange", () => {
    if (location.hash.slice(1) !== written) location.reload();
  });
}

/**
 * @param {Store} store
 * @param {HTMLElement} form
 */
async function startLive(store, form) {
  const { state, change, sample } = readLink(location.hash);
  try {
    const served = await askModels();
    const models = served.models.filter((model) => model.can_look);
    const names = models.map((model) => model.name);
    const asked = state.chosen ?? [];
    const known = asked.filter((name) => names.includes(name));
    const strange = asked.filter((name) => !names.includes(name));
    const notice = models.length === 0 ? say("no_models") : strange.length > 0
      ? say("unknown_models", { names: strange.join(", ") }) : "";
    const focus = state.focus !== null && known.includes(state.focus ?? "") ? state.focus : null;
    const text = state.text ?? "";
    const some = (/** @type {import("./store.js").Mode} */ mode) =>
      readers({ ...store.state, models }, mode).slice(0, 3).map((model) => model.name);
    const chosen = known.length > 0 ? known : [...some("text"), ...some("image")];
    const sees = some("image").length > 0 && (sample !== null || some("text").length === 0);
    const { limits } = served;
    store.set({ ...state, text, models, limits, mode: sees ? "image" : "text", focus, chosen, notice });
    followAddress(store);
    const options = { focus, change, keep: true };
    if (sees && sample) await draw(store, sample, options);
    else if (!sees && text && known.length > 0) await translate(store, text, options);
  } catch (error) {
    const locked = error instanceof Refusal && [401, 403].includes(error.status);
    if (locked) askKey(form, () => startLive(store, form));
    else store.set({ notice: reason(error) });
  }
}

/**
 * @param {Store} store
 * @param {import("./record.js").Look[]} looks
 */
function startFile(store, looks) {
  /** @type {Record<string, import("./store.js").Entry>} */
  const entries = {};
  for (const look of looks) {
    let name = look.model.name;
    for (let again = 2; name in entries; again++) name = `${look.model.name} (${again})`;
    entries[name] = { status: "ready", original: look, history: [] };
  }
  const { state } = readLink(location.hash);
  const names = Object.keys(entries);
  const focus = names.includes(state.focus ?? "") ? /** @type {string} */ (state.focus) : names[0];
  store.set({ ...state, text: looks[0].source.text, chosen: names, entries, focus });
  followAddress(store);
}

function start() {
  chooseLanguage();
  const records = document.getElementById("looks");
  const store = new Store({ ...START, live: records === null });
  const page = /** @type {HTMLElement} */ (document.getElementById("page"));
  const form = build(page, store);
  if (records === null) startLive(store, form);
  else startFile(store, JSON.parse(records.textContent ?? "[]"));
}

start();
