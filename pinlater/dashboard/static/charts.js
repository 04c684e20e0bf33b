// Charts of the last hour, drawn by uPlot; the numbers come from /charts.
"use strict";
(() => {
  const PERIOD_MS = 5000;
  const HEIGHT = 190;
  const count = (value) => value == null ? "–" : value.toLocaleString("en", value < 1000 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 });
  const milliseconds = (value) => {
    if (value == null) return "–";
    if (value < 1000) return count(Number(value.toPrecision(3))) + " ms";
    return value < 60000 ? (value / 1000).toFixed(1) + " s" : (value / 60000).toFixed(1) + " min";
  };

  const KINDS = {
    flow: { show: count, fields: [["enqueued", "enqueued", "--scheduled"], ["succeeded", "succeeded", "--succeeded"], ["failed", "failed attempts", "--failed"]] },
    waiting: { show: milliseconds, fields: [["waited_ms", "95 % waited less than", "--pending"]] },
    calls: { show: count, fields: [["calls", "calls", "--running"]] },
    latency: { show: milliseconds, fields: [["call_ms", "mean call", "--running"], ["commit_ms", "mean commit", "--pending"]] },
    commits: { show: count, fields: [["commit_requests", "requests per commit", "--succeeded"]] },
    parked: { show: count, fields: [["parked", "waiting dequeues", "--scheduled"]] },
  };

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Resolves a color of the style sheet to one that a canvas understands.
  const resolved = (name) => {
    const probe = document.createElement("i");
    probe.className = "probe " + name.slice(2);
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found || color(name);
  };

  const two = (number) => String(number).padStart(2, "0");
  const clock = (seconds) => {
    const moment = new Date(seconds * 1000);
    return `${two(moment.getHours())}:${two(moment.getMinutes())}` + (moment.getSeconds() ? `:${two(moment.getSeconds())}` : "");
  };
  // The value in the legend while the pointer is not over the chart.
  const latest = (values) => values.at(-1);
  const SHORTEST_SECONDS = 600;  // keeps the first minutes from scrolling too fast

  const zoom = (place) => Math.max(place.clientWidth, 120);
  const make = (place, kind) => {
    const { show, fields } = KINDS[kind];
    const axis = { stroke: resolved("--quiet"), grid: { stroke: resolved("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return new uPlot({
      width: zoom(place), height: HEIGHT,
      padding: [8, 18, 0, 0],
      cursor: { points: { size: 6 }, y: false },
      legend: { live: true, markers: { width: 0, fill: (plot, index) => plot.series[index].stroke(plot, index) } },
      scales: { x: { range: (_, low, high) => [Math.min(low, high - SHORTEST_SECONDS), high] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, values: (_, splits) => splits.map(clock), space: 70, size: 30 }, { ...axis, size: 58, values: (_, values) => values.map(show) }],
      series: [{ label: "time", value: (plot, moment) => moment == null && !plot.data[0].length ? "–" : clock(moment ?? latest(plot.data[0])) },
        ...fields.map(([, label, name], index) => ({
          label, value: (plot, value, line) => show(value ?? latest(plot.data[line])), stroke: resolved(name), width: 1.6, spanGaps: false, points: { show: false },
          fill: index === 0 ? resolved(name).replace(/^rgb\((.*)\)$/, "rgba($1, 0.10)") : undefined,
        }))],
    }, [[], ...fields.map(() => [])], place);
  };

  const charts = [];
  const draw = () => {
    for (const chart of charts) chart.plot?.destroy();
    for (const chart of charts) chart.plot = make(chart.place, chart.kind);
    for (const chart of charts) if (chart.data) show(chart, chart.data);
  };
  const show = (chart, data) => {
    chart.data = data;
    chart.place.parentElement.classList.toggle("empty", data.times.length < 2);
    chart.plot.setData([data.times, ...KINDS[chart.kind].fields.map(([field]) => data[field])]);
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
  setInterval(load, PERIOD_MS);
  addEventListener("theme", draw);
  new ResizeObserver(() => {
    for (const { place, plot } of charts) {
      if (plot.width !== zoom(place)) plot.setSize({ width: zoom(place), height: HEIGHT });
    }
  }).observe(charts[0].place);
})();
