// Exact times, and whole names of what is shortened: on demand beside the pointer and the focus, or, for times, all at once.
"use strict";
(() => {
  const SETTING = "pinlater-times";
  const MODES = ["ago", "local", "UTC"];
  const root = document.documentElement;
  const two = (number) => String(number).padStart(2, "0");

  const exact = (moment, isUtc) => {
    const at = isUtc ? moment : new Date(moment.getTime() - moment.getTimezoneOffset() * 60000);
    return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  };
  const mode = () => MODES.includes(root.dataset.times) ? root.dataset.times : "ago";

  const write = () => {
    const chosen = mode();
    const label = document.querySelector(".times-mode");
    if (label) label.textContent = chosen === "ago" ? "" : chosen;
    if (chosen === "ago") return;
    for (const time of document.querySelectorAll("main time[datetime]")) {
      if (!time.dataset.ago) time.dataset.ago = time.textContent;
      time.textContent = exact(new Date(time.dateTime), chosen === "UTC") + (chosen === "UTC" ? " UTC" : "");
    }
  };
  const choose = (chosen) => {
    root.dataset.times = chosen;
    try { localStorage.setItem(SETTING, chosen); } catch { /* until the next page */ }
    if (chosen === "ago") for (const time of document.querySelectorAll("main time[data-ago]")) { time.textContent = time.dataset.ago; delete time.dataset.ago; }
    write();
    document.getElementById("said").textContent = { ago: "Times are shown as ago", local: "Times are shown in local time", UTC: "Times are shown in UTC" }[chosen];
    dispatchEvent(new Event("times"));
  };
  root.dataset.times = (() => { try { return localStorage.getItem(SETTING); } catch { return null; } })() ?? "ago";
  document.getElementById("times")?.addEventListener("click", () => choose(MODES[(MODES.indexOf(mode()) + 1) % MODES.length]));
  addEventListener("htmx:after:swap", write);
  write();

  // The tip: one for the page.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  const hide = () => { tip.hidden = true; };
  const lines = (about) => {
    if (about.dataset.full) return [about.dataset.full];
    const moment = new Date(about.dateTime);
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return [exact(moment, true) + " UTC", ...(moment.getTimezoneOffset() ? [`${exact(moment, false)} ${zone}`] : [])];
  };
  const show = (about) => {
    about.removeAttribute("title");  // the browser would show it as well
    tip.replaceChildren(...lines(about).map((line) => Object.assign(document.createElement("div"), { textContent: line })));
    tip.hidden = false;
    const box = about.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8));
    const below = box.bottom + 6;
    const top = below + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 6 : below;
    tip.style.translate = `${left}px ${top}px`;
  };
  const HAS_TIP = "time[datetime], [data-full]";
  addEventListener("mouseover", (event) => {
    const about = event.target.closest?.(HAS_TIP);
    if (about) show(about);
    else if (!tip.hidden) hide();
  });
  addEventListener("focusin", (event) => {
    const about = event.target.matches?.(HAS_TIP) ? event.target : event.target.querySelector?.("[data-full]");
    if (about && event.target.matches("a, button, summary, [tabindex]") && event.target.id !== "main") show(about);
    else hide();
  });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true, capture: true });
  addEventListener("htmx:after:swap", () => { if (!tip.hidden) hide(); });
})();
