/** Requests for looks: one at a time for each model and purpose. */

import { say } from "../language/language.js";
import { Refusal, askImage, askLook } from "./api.js";

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {import("./store.js").Change} Change
 */

/** Pending requests by model; a new one aborts the old one. */
const underWay = new Map();

/** @param {string} task */
export function abort(task) {
  underWay.get(task)?.abort();
}

/**
 * Request a look from a model; null if a newer request replaced it.
 * @param {Store} store
 * @param {string} name
 * @param {Change} change
 * @param {{tree?: boolean, beam?: number}} [options]
 */
export async function request(store, name, change, options = {}) {
  const task = options.tree ? `tree ${name}` : name;
  underWay.get(task)?.abort();
  const controller = new AbortController();
  underWay.set(task, controller);
  try {
    const { models, picture, text } = store.state;
    const { signal } = controller;
    const seeing = models.find((model) => model.name === name)?.source === "image";
    if (seeing && picture) return await askImage(name, picture.blob, change, signal);
    return await askLook(name, text, change, { ...options, signal });
  } catch (error) {
    if (controller.signal.aborted) return null;
    throw error;
  } finally {
    if (underWay.get(task) === controller) underWay.delete(task);
  }
}

/** @param {unknown} error */
export function reason(error) {
  if (error instanceof Refusal) {
    if (error.status === 0) return say("no_answer");
    return error.status === 429 || error.status === 503 ? `${say("busy")} ${error.message}` : error.message;
  }
  return String(error);
}
