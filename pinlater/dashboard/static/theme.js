// Runs before the first paint, so that the page does not flash.
"use strict";
(() => {
  const key = "pinlater-theme";
  const root = document.documentElement;
  const chosen = (() => { try { return localStorage.getItem(key); } catch { return null; } })();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  addEventListener("click", (event) => {
    if (!event.target.closest?.("#theme")) return;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem(key, root.dataset.theme); } catch { /* private windows do not store it */ }
    dispatchEvent(new Event("theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("theme")));
})();
