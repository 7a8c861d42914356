/** The page header: title, language, colour theme. */

import { h } from "../drawing/dom.js";
import { repaintAll } from "../drawing/miniature.js";
import { currentLanguage, say } from "../language/language.js";

const THEMES = /** @type {const} */ (["auto", "light", "dark"]);

/**
 * @param {HTMLElement} place
 * @param {boolean} live
 * @param {...HTMLElement} menus
 */
export function mountTop(place, live, ...menus) {
  const theme = h("select", { "aria-label": say("theme"), id: "theme" },
    THEMES.map((name) => h("option", { value: name, selected: name === remembered() }, say(`theme_${name}`))));
  theme.addEventListener("change", () => useTheme(/** @type {HTMLSelectElement} */ (theme).value));
  place.append(
    h("div", { class: "brand" }, h("h1", {}, "Regard"), h("p", {}, say(live ? "tagline" : "tagline_file"))),
    h("div", { class: "row" }, ...menus, live && h("a", { href: "docs" }, "API"), languages(), theme));
  useTheme(remembered());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintAll);
}

/** Links to the page in each language; a notebook has no address to change. */
function languages() {
  if (location.protocol === "about:") return null;
  const names = { en: "English", ko: "한국어" };
  return h("div", { class: "segments", role: "group", "aria-label": say("language") },
    Object.entries(names).map(([code, name]) =>
      h("button", { lang: code, "aria-pressed": code === currentLanguage(), click: () => speak(code) }, name)));
}

/** @param {string} code */
function speak(code) {
  const address = new URL(location.href);
  address.searchParams.set("lang", code);
  location.assign(address);
}

/** @param {string} theme */
function useTheme(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  repaintAll();
  try {
    localStorage.setItem("regard-theme", theme);
  } catch {
    // A notebook may block localStorage.
  }
}

function remembered() {
  try {
    return localStorage.getItem("regard-theme") ?? "auto";
  } catch {
    return "auto";
  }
}
