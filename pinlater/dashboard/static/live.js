// Complements htmx: pages stop refreshing while hidden, and tell when their data is stale.
"use strict";
(() => {
  const stale = document.getElementById("stale");
  const setStale = (isStale) => { stale.hidden = !isStale; };

  // A list waits while someone selects jobs of it.
  const isInUse = () => document.querySelector("#live input[name=job]:checked, #live details.menu[open]");
  addEventListener("htmx:before:request", (event) => { if (document.hidden || isInUse()) event.preventDefault(); });
  addEventListener("htmx:before:response", (event) => {
    const { response, hx } = event.detail.ctx;
    const mark = response.headers.get("PinLater-Page");
    const isVoid = mark && mark !== document.documentElement.dataset.mark;  // such as after a restart of the server
    if (response.status < 400 && !isVoid) return;
    event.preventDefault();
    if (hx?.redirect) location.assign(hx.redirect + "?next=" + encodeURIComponent(location.pathname.slice(document.documentElement.dataset.base.length) + location.search));
    else if (response.status === 404 || isVoid) location.reload();
    else setStale(true);
  });
  addEventListener("htmx:error", () => setStale(true));
  addEventListener("htmx:after:swap", () => setStale(false));

  // What is new is told once to screen readers: a list that refreshes itself would be read again and again.
  const news = () => [...document.querySelectorAll("[data-news]")];
  let told = new Set(news().map((one) => one.dataset.news));
  addEventListener("htmx:after:swap", () => {
    const fresh = news().filter((one) => !told.has(one.dataset.news)).map((one) => one.dataset.said);
    told = new Set(news().map((one) => one.dataset.news));
    if (fresh.length) document.getElementById("said").textContent = "New: " + fresh.slice(0, 3).join("; ");
  });

  // What can be scrolled can be reached by keyboard.
  const reach = () => {
    for (const one of document.querySelectorAll("pre, .scroll")) one.toggleAttribute("tabindex", false);
    for (const one of document.querySelectorAll("pre, .scroll")) {
      if (one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight) one.tabIndex = 0;
    }
  };
  reach();
  for (const event of ["htmx:after:swap", "resize", "toggle"]) addEventListener(event, reach, { capture: true });

  document.addEventListener("visibilitychange", () => {
    const live = document.getElementById("live");
    if (!document.hidden && live?.hasAttribute("hx-get")) htmx.trigger(live, "every");
  });

  // Where a form was refused, the way back leads to the form as it was sent, not to a new one. A tab that was opened by
  // sending it has no way back.
  addEventListener("click", (event) => {
    const back = event.target.closest?.("a[data-back]");
    if (!back || history.length < 2 || !document.referrer || new URL(document.referrer).pathname !== back.pathname) return;
    event.preventDefault();
    history.back();
  });

  addEventListener("click", (event) => {
    const copy = event.target.closest?.("[data-copy]");
    if (!copy) return;
    navigator.clipboard?.writeText(copy.dataset.copy || location.href).then(() => {
      copy.classList.add("done");
      setTimeout(() => copy.classList.remove("done"), 1200);
    });
  });

  addEventListener("change", (event) => {
    if (event.target.matches?.("select[data-submit]")) event.target.form.requestSubmit();
    if (event.target.id === "all") {
      for (const box of document.querySelectorAll("input[name=job]")) box.checked = event.target.checked;
    }
    countSelected();
  });

  // Buttons for selected jobs are there without this script, too; so they are disabled here.
  const countSelected = () => {
    const form = document.querySelector("form[data-selectable]");
    if (!form) return;
    const selected = document.querySelectorAll("input[name=job]:checked").length;
    form.querySelector("[data-selected]").textContent = selected.toLocaleString("en");
    for (const button of form.querySelectorAll("button")) button.disabled = selected === 0;
  };
  countSelected();
  for (const event of ["htmx:after:swap", "pageshow"]) addEventListener(event, countSelected);
})();
