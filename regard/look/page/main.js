/**
 * Build the page: live with a server, or from the records embedded in the file.
 *
 * A folder imports only from folders above it:
 * - language/: the strings, English and Korean
 * - drawing/: elements, number formats, icons, small figures
 * - data/: the server's API, the look record, the state of the page and its link, the shown map
 * - changes/: what a user changes (weights, banned words, another candidate), its preview, undo
 * - attention/: ribbons, matrix, heads; the fixed vector of a model without attention
 * - steps/: the player, the arithmetic of a step, candidates, beam, architecture
 * - images/: attention over an image, a classifier's maps
 * - models/: the list of models, their cards, two compared, how one learned
 * - controls/: the input, tabs, header, tour, downloads
 */

import { mountFixed } from "./attention/fixed.js";
import { mountHeadFacts } from "./attention/head_facts.js";
import { mountHeads } from "./attention/heads.js";
import { mountLegend } from "./attention/legend.js";
import { mountMatrix } from "./attention/matrix.js";
import { mountRibbons } from "./attention/ribbons.js";
import { translate } from "./changes/actions.js";
import { mountBar } from "./changes/bar.js";
import { mountChanges } from "./changes/changes.js";
import { mountWeight } from "./changes/weight.js";
import { mountInvitation, openAlive } from "./controls/alive.js";
import { askKey, modeTabs, mountForm } from "./controls/form.js";
import { mountPanels } from "./controls/panels.js";
import { shareMenu } from "./controls/share.js";
import { mountTop } from "./controls/top.js";
import { tourButton } from "./controls/tour.js";
import { draw } from "./controls/upload.js";
import { askModels, Refusal } from "./data/api.js";
import { readLink, writeLink } from "./data/link.js";
import { followParts } from "./data/missing.js";
import { reason } from "./data/request.js";
import { START, Store, readers, seenIn, shown } from "./data/store.js";
import { followTable } from "./data/table.js";
import { h, hide, write } from "./drawing/dom.js";
import { mountPicture } from "./images/picture.js";
import { mountSeen } from "./images/seen.js";
import { chooseLanguage, say } from "./language/language.js";
import { doubt, mountCards } from "./models/cards.js";
import { mountCompare } from "./models/compare.js";
import { mountTime } from "./models/time.js";
import { mountArchitecture } from "./steps/architecture.js";
import { mountCandidates } from "./steps/candidates.js";
import { mountPlayer } from "./steps/player.js";
import { mountStages } from "./steps/stages.js";
import { mountTree } from "./steps/tree.js";

/**
 * From top to bottom: input, models, ribbons, and under them one panel and the inspector.
 * @param {HTMLElement} page
 * @param {Store} store
 */
function build(page, store) {
  const tables = followTable(store);
  const part = (/** @type {string} */ key, /** @type {any[]} */ ...children) =>
    h("section", { class: `part ${key}`, hidden: true }, ...children);
  const top = h("header", { class: "top" });
  const form = h("section", { class: "part form", hidden: !store.state.live });
  const notice = h("p", { class: "notice", role: "status", "aria-live": "polite" });
  const spoken = h("p", { class: "hidden-visually", role: "status", "aria-live": "polite" });
  const trouble = h("p", { class: "doubt", hidden: true });
  const cards = h("section", { class: "part", "aria-labelledby": "cards-title", hidden: true });
  const [compare, ribbons, fixed, picture, seen] = ["compare-part", "ribbons-part", "fixed-part", "picture-part", "seen-part"]
    .map((key) => part(key));
  const legend = h("div", { class: "legend", hidden: true });
  const invitation = h("div", { class: "invitation", hidden: true });
  const player = h("div", { class: "player", hidden: true });
  const [matrix, steps, map, tree, time] = ["matrix-part", "steps-part", "map-part", "tree-part", "time-part"]
    .map((key) => part(key));
  const heads = h("div", { class: "heads", role: "group", "aria-label": say("map"), hidden: true });
  const [candidates, facts, weight, changes] = ["panel", "panel head-facts", "panel weight-part", "panel changes"]
    .map((key) => part(key));
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": say("panels") });
  const switches = h("div", { class: "row switches" });
  const head = h("div", { class: "panel-head" }, tabs, switches);
  const inside = h("div", { class: "inside", hidden: true }, time, picture, seen, compare, ribbons, legend, fixed,
    h("div", { class: "under-ribbons" }, player, invitation),
    h("div", { class: "columns" },
      h("div", { class: "main-panel" }, head,
        h("div", { class: "beside" }, h("div", { class: "views" }, matrix, steps, map, tree), heads)),
      h("div", { class: "side" }, weight, facts, candidates, changes)));
  const bar = h("div", { class: "change-bar", role: "group", "aria-label": say("changes"), hidden: true });
  const note = h("p", {}, store.state.live ? say("attention_note") : say("file_note"));
  page.replaceChildren(top, h("main", {}, form, notice, spoken, cards, trouble, inside), h("footer", {}, note), bar);
  const drawn = () => /** @type {SVGElement | null} */ ([matrix, tree, picture, seen]
    .find((each) => each.offsetParent !== null)?.querySelector("svg.matrix, svg.tree, svg.cells") ?? null);
  mountTop(top, store.state.live, modeTabs(store), tourButton(), shareMenu(store, drawn));
  if (store.state.live) mountForm(form, store);
  mountPanels(tabs, { matrix, steps, map, beam: tree }, store); // first: the parts look at whether they are hidden
  mountCards(cards, store);
  mountHeads(switches, heads, store);
  mountTime(time, store);
  mountPicture(picture, store);
  mountSeen(seen, store);
  mountCompare(compare, store);
  mountRibbons(ribbons, store, tables);
  mountLegend(legend, store, tables);
  mountFixed(fixed, store);
  mountInvitation(invitation, store);
  mountPlayer(player, store, tables);
  mountMatrix(matrix, store, tables);
  mountStages(steps, store);
  mountCandidates(candidates, store);
  mountHeadFacts(facts, store);
  mountWeight(weight, store, tables);
  mountChanges(changes, store);
  mountArchitecture(map, store);
  mountTree(tree, store);
  mountBar(bar, store);
  followParts(store);
  store.listen((state) => {
    const look = shown(state);
    hide(inside, look === null && seenIn(state) === null);
    hide(head, tabs.hidden && switches.hidden);
    const doubtful = look && state.live && !look.image && state.reveal === null ? doubt(look) : null;
    hide(trouble, doubtful === null);
    if (doubtful !== null) write(trouble, doubtful);
    write(notice, state.notice);
    write(spoken, state.spoken);
  });
  return form;
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
    const some = (/** @type {import("./data/store.js").Mode} */ mode) =>
      readers({ ...store.state, models }, mode).slice(0, 3).map((model) => model.name);
    const chosen = known.length > 0 ? known : [...some("text"), ...some("image")];
    const sees = some("image").length > 0 && (sample !== null || some("text").length === 0);
    const { limits } = served;
    store.set({ ...state, text, models, limits, mode: sees ? "image" : "text", focus, chosen, notice });
    followAddress(store);
    const options = { focus, change, keep: true };
    if (sees && sample) await draw(store, sample, options);
    else if (text && known.length > 0) await translate(store, text, options);
    else if (!sees || sample === null) await openAlive(store);
  } catch (error) {
    const locked = error instanceof Refusal && [401, 403].includes(error.status);
    if (locked) askKey(form, () => startLive(store, form));
    else store.set({ notice: reason(error) });
  }
}

/**
 * @param {Store} store
 * @param {import("./data/record.js").Look[]} looks
 */
function startFile(store, looks) {
  /** @type {Record<string, import("./data/store.js").Entry>} */
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
