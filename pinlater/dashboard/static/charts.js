// Charts, drawn by uPlot; the numbers come from /charts. A zoom is part of the page's address.
"use strict";
(() => {
  const PERIOD_MS = 5000;
  const SLOW_PERIOD_MS = 30_000;  // of ranges whose numbers are those of minutes or hours
  const HEIGHT = 190;
  const DAY_SECONDS = 86_400;
  const count = (value) => value == null ? "–" : value.toLocaleString("en", value < 1000 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 });
  const milliseconds = (value) => {
    if (value == null) return "–";
    if (value < 1000) return count(Number(value.toPrecision(3))) + " ms";
    return value < 60000 ? (value / 1000).toFixed(1) + " s" : (value / 60000).toFixed(1) + " min";
  };

  // The field of "before" is drawn a second time, paler: what it was a day or a week before.
  const KINDS = {
    flow: { show: count, before: "succeeded", fields: [["enqueued", "enqueued", "--scheduled"], ["succeeded", "succeeded", "--succeeded"], ["failed", "failed attempts", "--failed"]] },
    waiting: { show: milliseconds, before: "waited_ms", fields: [["waited_ms", "95 % waited less than", "--pending"]] },
    calls: { show: count, fields: [["calls", "calls", "--running"]] },
    latency: { show: milliseconds, fields: [["call_ms", "mean call", "--running"], ["commit_ms", "mean commit", "--pending"]] },
    commits: { show: count, fields: [["commit_requests", "requests per commit", "--succeeded"]] },
    parked: { show: count, fields: [["parked", "waiting dequeues", "--scheduled"]] },
  };

  // Resolves a color of the style sheet to one that a canvas understands.
  const resolved = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const faded = (rgb, share) => rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${share})`);

  const isUtc = () => document.documentElement.dataset.times === "UTC";
  const zoned = (seconds) => isUtc() ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const day = (moment) => `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  const clock = (moment) => `${two(moment.getHours())}:${two(moment.getMinutes())}` + (moment.getSeconds() ? `:${two(moment.getSeconds())}` : "");
  const isLong = (plot) => plot.scales.x.max - plot.scales.x.min > DAY_SECONDS / 2;
  const exact = (plot, seconds) => (isLong(plot) ? day(zoned(seconds)) + " " : "") + clock(zoned(seconds));
  const ticks = (plot, splits) => splits.map((seconds) => {
    const moment = zoned(seconds);
    return isLong(plot) && !moment.getHours() && !moment.getMinutes() ? day(moment).slice(5) : clock(moment);
  });
  // The value in the legend while the pointer is not over the chart.
  const latest = (values) => values.findLast((value) => value != null);
  const SHORTEST_SECONDS = 600;  // keeps the first minutes from scrolling too fast

  // The zoom: epoch seconds in the address, so that it stays through refreshes, and can be sent to a colleague.
  const wanted = () => {
    const query = new URLSearchParams(location.search);
    const [from, to] = [Number(query.get("from")), Number(query.get("to"))];
    return from > 0 && to > from ? [from, to] : null;
  };
  let zoomed = wanted();
  const zoom = (range) => {
    zoomed = range;
    const address = new URL(location);
    for (const [index, name] of ["from", "to"].entries()) {
      if (range) address.searchParams.set(name, String(Math.round(range[index])));
      else address.searchParams.delete(name);
    }
    history.replaceState(null, "", address);
    for (const { plot, data } of charts) if (data) plot.setData(plot.data);
    mark();
  };
  const mark = () => { for (const button of document.querySelectorAll("[data-zoom-reset]")) button.hidden = !zoomed; };

  const width = (place) => Math.max(place.clientWidth, 120);
  const select = (plot) => {
    const { left, width: wide } = plot.select;
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    if (wide > 6) zoom([plot.posToVal(left, "x"), plot.posToVal(left + wide, "x")]);
  };
  const make = (place, kind) => {
    const { show, fields, before } = KINDS[kind];
    const axis = { stroke: resolved("--quiet"), grid: { stroke: resolved("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const told = place.dataset.before;
    const line = ([, label, name], index) => ({
      label, value: (plot, value, number) => show(value ?? latest(plot.data[number])), stroke: resolved(name), width: 1.6, spanGaps: false, points: { show: false },
      fill: index === 0 ? faded(resolved(name), 0.1) : undefined,
    });
    const pale = fields.filter(([field]) => told && field === before).map(([, , name]) => ({
      label: told, value: (plot, value, number) => show(value ?? latest(plot.data[number])), stroke: faded(resolved(name), 0.4), width: 1.4, dash: [5, 4], spanGaps: true, points: { show: false },
    }));
    return new uPlot({
      width: width(place), height: HEIGHT, tzDate: zoned,
      padding: [8, 18, 0, 0],
      cursor: { points: { size: 6 }, y: false, drag: { x: true, y: false, setScale: false } },
      hooks: { setSelect: [select] },
      legend: { live: true, markers: { width: 0, fill: (plot, index) => plot.series[index].stroke(plot, index) } },
      scales: { x: { range: (_, low, high) => zoomed ?? [Math.min(low, high - SHORTEST_SECONDS), high] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, values: ticks, space: 70, size: 30 }, { ...axis, size: 58, values: (_, values) => values.map(show) }],
      series: [{ label: "time", value: (plot, moment) => moment == null && !plot.data[0].length ? "–" : exact(plot, moment ?? plot.data[0].at(-1)) },
        ...fields.map(line), ...pale],
    }, [[], ...fields.map(() => []), ...pale.map(() => [])], place);
  };

  const charts = [];
  const draw = () => {
    for (const chart of charts) chart.plot?.destroy();
    for (const chart of charts) {
      chart.plot = make(chart.place, chart.kind);
      chart.plot.over.addEventListener("dblclick", () => zoom(null));
    }
    for (const chart of charts) if (chart.data) show(chart, chart.data);
  };
  const show = (chart, data) => {
    const { fields, before } = KINDS[chart.kind];
    chart.data = data;
    chart.place.parentElement.classList.toggle("empty", data.times.length < 2);
    const now = [data.times, ...fields.map(([field]) => data[field] ?? data.times.map(() => null))];
    const hasPale = chart.plot.series.length > now.length;
    const then = data.before ?? { times: [] };
    chart.plot.setData(hasPale ? uPlot.join([now, [then.times, then[before] ?? []]]) : now);
  };

  const load = async () => {
    if (document.hidden) return;
    const answers = new Map();
    for (const chart of charts) {
      const source = chart.place.dataset.chart;
      try {
        if (!answers.has(source)) {
          const answer = await fetch(source, { headers: { "HX-Request": "true" } });
          answers.set(source, answer.ok ? await answer.json() : null);
        }
        if (answers.get(source)) show(chart, answers.get(source));
      } catch { /* the live part of the page reports it */ }
    }
  };

  for (const place of document.querySelectorAll("[data-chart]")) charts.push({ place, kind: place.dataset.kind });
  if (!charts.length) return;
  draw();
  load();
  mark();
  setInterval(load, charts.some(({ place }) => place.dataset.slow) ? SLOW_PERIOD_MS : PERIOD_MS);
  addEventListener("theme", draw);
  addEventListener("times", draw);
  addEventListener("click", (event) => { if (event.target.closest?.("[data-zoom-reset]")) zoom(null); });
  new ResizeObserver(() => {
    for (const { place, plot } of charts) {
      if (plot.width !== width(place)) plot.setSize({ width: width(place), height: HEIGHT });
    }
  }).observe(charts[0].place);
})();
