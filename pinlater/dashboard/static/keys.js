// Moves through pages by keyboard. Whoever types into a field, or has switched the keys off, is left alone.
"use strict";
(() => {
  const SETTING = "pinlater-keys";
  const PREFIX_MS = 1500;  // for how long "g" waits for the name of a page
  const box = document.getElementById("keys-on");
  const remembered = (() => { try { return localStorage.getItem(SETTING); } catch { return null; } })();
  if (box) {
    box.checked = remembered !== "off";
    box.addEventListener("change", () => {
      try { localStorage.setItem(SETTING, box.checked ? "on" : "off"); } catch { /* until the next page */ }
    });
  }

  // A row is reached by its first link: Enter follows it, and screen readers read it.
  const target = (row) => row.querySelector("[data-open], th a[href], td a[href], a[href]");
  const rows = () => [...document.querySelectorAll("main tbody tr, main [data-row]")]
    .filter((row) => target(row) && row.getClientRects().length);
  const current = () => document.activeElement?.closest("main tbody tr, main [data-row]");
  let last = -1;  // a row that has gone leaves its place to the one after it
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const here = all.indexOf(current());
    last = Math.max(0, Math.min(all.length - 1, here >= 0 ? here + step : last >= 0 ? last + (step > 0 ? 0 : -1) : 0));
    target(all[last]).focus({ preventScroll: true });
    all[last].scrollIntoView({ block: "nearest" });
  };

  const select = () => {
    const check = current()?.querySelector("input[type=checkbox]");
    if (check) check.click();
  };
  const follow = (selector) => document.querySelector(selector)?.click();
  const actions = {
    j: () => move(1), k: () => move(-1), x: select,
    "[": () => follow("main a[rel=prev]"), "]": () => follow("main a[rel=next]"),
    "/": () => { document.getElementById("find")?.focus(); document.getElementById("find")?.select(); },
    t: () => follow("#times"),
  };

  let prefixUntil = 0;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const isTyping = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (isTyping) {
      if (event.key === "Escape" && event.target.id === "find") event.target.blur();
      return;
    }
    if (event.key === "?") {
      document.getElementById("keys")?.togglePopover();
      event.preventDefault();
      return;
    }
    if ((box && !box.checked) || document.querySelector(":popover-open")) return;
    if (event.timeStamp < prefixUntil) {
      prefixUntil = 0;
      const link = [...document.querySelectorAll("[data-go]")].find((one) => one.dataset.go === event.key);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    if (event.key === "g") prefixUntil = event.timeStamp + PREFIX_MS;
    else if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
  });
})();
