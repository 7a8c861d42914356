/** Client of the server's own API: models, look records of sentences and images. */

/**
 * @typedef {import("./record.js").Look} Look
 * @typedef {import("../images/seen.js").Seen} Seen
 * @typedef {import("./store.js").Change} Change
 */

/** An error response, with the server's message. */
export class Refusal extends Error {
  /**
   * @param {string} message
   * @param {number} status 0 when no answer came
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

let key = "";

/**
 * Use this API key for all requests.
 * @param {string} value
 */
export function useKey(value) {
  key = value;
}

/** @returns {Promise<{models: import("./store.js").Served[], limits: Record<string, number>}>} */
export function askModels() {
  return ask("api/models");
}

/**
 * @param {string} model
 * @param {string} text
 * @param {Change} change
 * @param {{tree?: boolean, beam?: number, parts?: string[], signal?: AbortSignal}} [options] `parts`: of the record,
 *   by default all of a short sentence and the least of a long one
 * @returns {Promise<Look>}
 */
export function askLook(model, text, change, { tree = false, beam, parts, signal } = {}) {
  const { prefix, ban, edits } = change;
  /** @type {Record<string, unknown>} */
  const body = { model, text, candidates: 5 };
  if (prefix.length > 0) body.prefix = prefix;
  if (ban.length > 0 || edits.length > 0) body.intervention = { ban, edits };
  if (tree) Object.assign(body, { tree, beam });
  if (parts || isLong(text)) body.parts = parts ?? [];
  return ask("api/look", new Blob([JSON.stringify(body)], { type: "application/json" }), signal);
}

const LONG = 24; // words; a longer sentence's heads and steps are asked for when they are looked at

/** @param {string} text */
function isLong(text) {
  return text.split(/\s+/).length > LONG;
}

/**
 * @param {string} model
 * @param {Blob} image
 * @param {Change} change
 * @param {AbortSignal} [signal]
 * @returns {Promise<Look | Seen>}
 */
export function askImage(model, image, { prefix, ban }, signal) {
  const asked = new URLSearchParams({ model });
  for (const id of prefix) asked.append("prefix", String(id));
  for (const cell of ban) asked.append("ban", String(cell));
  return ask(`api/look-image?${asked}`, image, signal);
}

/**
 * How far the fixed vector of a model moves from a sentence to each of the others.
 * @param {string} model
 * @param {string} text
 * @param {string[]} others
 * @returns {Promise<{text: string, distance: number, cosine: number}[]>}
 */
export async function askVectors(model, text, others) {
  const body = new Blob([JSON.stringify({ model, text, others })], { type: "application/json" });
  return (await ask("api/vectors", body)).moves;
}

/**
 * A sample image drawn by the server.
 * @param {string} name
 * @param {string} seed
 * @returns {Promise<Blob>}
 */
export async function askSample(name, seed) {
  return (await send(`api/sample-image?${new URLSearchParams({ name, seed })}`)).blob();
}

/**
 * The architecture of a model over some words, as SVG.
 * @param {string} model
 * @param {string[]} source
 * @param {string[]} target
 * @returns {Promise<string>}
 */
export async function askDiagram(model, source, target) {
  const asked = new URLSearchParams({ model, source: source.join(" "), target: target.join(" ") });
  return (await send(`api/diagram?${asked}`)).text();
}

/**
 * The numbers of one box of the architecture.
 * @param {Record<string, unknown>} asked
 * @returns {Promise<import("../steps/node.js").Numbers>}
 */
export function askNode(asked) {
  return ask("api/node", new Blob([JSON.stringify(asked)], { type: "application/json" }));
}

/**
 * @param {string} path
 * @param {Blob} [body]
 * @param {AbortSignal} [signal]
 */
async function ask(path, body, signal) {
  return (await send(path, body, signal)).json();
}

/**
 * @param {string} path
 * @param {Blob} [body]
 * @param {AbortSignal} [signal]
 */
async function send(path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (body) headers["Content-Type"] = body.type;
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal("", 0);
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new Refusal(String(answer.error ?? response.statusText), response.status);
}
