/** The input image: chosen, dropped, pasted, or drawn by the server. */

import { see } from "../changes/actions.js";
import { askSample } from "../data/api.js";
import { reason } from "../data/request.js";
import { readers } from "../data/store.js";
import { h, replace } from "../drawing/dom.js";
import { say } from "../language/language.js";
import { mountModels } from "../models/models.js";

const LONGEST = 1024; // pixels; larger images are scaled down before upload, models use far fewer
const TAKEN = ["image/png", "image/jpeg"];
const SEEDS = 100_000;

/** @typedef {import("../data/store.js").Store} Store */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 */
export function mountUpload(place, store) {
  const file = /** @type {HTMLInputElement} */ (h("input", { type: "file", accept: "image/*" }));
  const preview = h("div", { hidden: true });
  const samples = h("span", { class: "buttons" });
  const zone = h("div", { class: "drop" }, preview,
    h("div", { class: "drop-words" },
      h("div", { class: "row" }, h("label", { class: "pick" }, file, h("span", {}, say("choose_image"))), samples),
      h("p", { class: "hint" }, say("drop_hint"))));
  const models = h("fieldset", { class: "models" });
  place.append(zone, models);
  mountModels(models, store, "image");
  file.addEventListener("change", () => {
    take(store, file.files?.[0]);
    file.value = ""; // so the same file can be chosen again
  });
  receive(store, zone);
  store.listen((state, before) => {
    if (state.models !== before.models) replace(samples, ...sampleButtons(store));
    if (state.picture === before.picture) return;
    preview.hidden = state.picture === null;
    if (state.picture) replace(preview, thumbnail(state.picture.blob));
  });
  store.listen((state, before) => {
    const again = state.mode === "image" && state.picture !== null && state.picture === before.picture;
    if (again && state.chosen !== before.chosen) see(store, /** @type {any} */ (state.picture));
  });
}

/** @param {Blob} blob */
function thumbnail(blob) {
  const src = URL.createObjectURL(blob);
  return h("img", { src, alt: say("your_image"), load: () => URL.revokeObjectURL(src) });
}

/**
 * A button for each kind of sample image.
 * @param {Store} store
 */
function sampleButtons(store) {
  const kinds = new Set(readers(store.state, "image").flatMap((model) => model.sample ?? []));
  return [...kinds].map((kind) =>
    h("button", { class: "quiet", click: () => draw(store, `${kind}.${Math.floor(Math.random() * SEEDS)}`) },
      say(kind === "scenes" ? "draw_scene" : "draw_ears")));
}

/**
 * Use a sample image of the server.
 * @param {Store} store
 * @param {string} sample its kind and its number, as in "scenes.17"
 * @param {Parameters<typeof see>[2]} [options]
 */
export async function draw(store, sample, options) {
  const [kind, seed] = sample.split(".");
  try {
    const before = store.state.picture;
    const blob = await askSample(kind, seed);
    if (store.state.picture === before) await see(store, { blob, sample }, options); // else an own image came first
  } catch (error) {
    store.set({ notice: reason(error) });
  }
}

/**
 * Accept images dropped on the page or pasted.
 * @param {Store} store
 * @param {HTMLElement} zone
 */
function receive(store, zone) {
  const able = () => readers(store.state, "image").length > 0;
  const over = (/** @type {boolean} */ is) => zone.classList.toggle("over", is);
  document.addEventListener("dragover", (event) => {
    if (!able() || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) over(false);
  });
  document.addEventListener("drop", (event) => {
    if (!able() || !event.dataTransfer?.files.length) return;
    event.preventDefault();
    over(false);
    take(store, event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => {
    const pasted = [...(event.clipboardData?.files ?? [])].find((each) => each.type.startsWith("image/"));
    if (!able() || !pasted) return;
    event.preventDefault();
    take(store, pasted);
  });
}

/**
 * @param {Store} store
 * @param {Blob | undefined} blob
 */
async function take(store, blob) {
  if (!blob) return;
  try {
    const fitting = await fit(blob, store.state.limits.max_image_bytes ?? Infinity);
    await see(store, { blob: fitting, sample: null });
  } catch {
    store.set({ notice: say("no_image") });
  }
}

/**
 * The image as a PNG or JPEG within the size limit; throws if the browser cannot read it.
 * @param {Blob} blob
 * @param {number} most bytes
 * @returns {Promise<Blob>}
 */
async function fit(blob, most) {
  const image = await createImageBitmap(blob);
  const scale = Math.min(1, LONGEST / Math.max(image.width, image.height));
  if (scale === 1 && blob.size <= most && TAKEN.includes(blob.type)) return blob;
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(image.width * scale));
  canvas.height = Math.max(1, Math.round(image.height * scale));
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  const kind = blob.type === "image/jpeg" ? blob.type : "image/png";
  return new Promise((done, fail) => canvas.toBlob((found) => (found ? done(found) : fail()), kind, 0.92));
}
