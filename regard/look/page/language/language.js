/** The language of the page: English or Korean. */

import { ENGLISH } from "./english.js";
import { KOREAN } from "./korean.js";

/** @typedef {keyof typeof ENGLISH} Phrase */

/** @type {Record<string, typeof ENGLISH>} */
const LANGUAGES = { en: ENGLISH, ko: KOREAN };

let language = "en";

/**
 * Use the language of ?lang=, or else the browser's.
 * @param {string} [wanted]
 */
export function chooseLanguage(wanted) {
  const asked = wanted ?? new URLSearchParams(location.search).get("lang") ?? navigator.language ?? "en";
  language = asked.toLowerCase().startsWith("ko") ? "ko" : "en";
  document.documentElement.lang = language;
}

/** The language in use: "en" or "ko". */
export function currentLanguage() {
  return language;
}

/**
 * A string with its placeholders filled in.
 * @param {Phrase} phrase
 * @param {Record<string, string | number>} [values]
 */
export function say(phrase, values = {}) {
  return LANGUAGES[language][phrase].replace(/\{(\w+)\}/g, (all, name) => String(values[name] ?? all));
}
