// Draws the figures of a page with Plotly, in the colours of the page, and again when its look changes. A figure is the
// JSON inside its box; a point leads to the address in its customdata. Without script the table beside it says the same.
"use strict";

const systemLook = matchMedia("(prefers-color-scheme: dark)");

function painted(value, colours) {
  if (Array.isArray(value)) return value.map((each) => painted(each, colours));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, painted(each, colours)]));
  }
  const colour = typeof value === "string" && /^var\((--[a-z-]+)\)$/.exec(value);
  return colour ? colours.getPropertyValue(colour[1]).trim() : value;
}

function draw(box) {
  const figure = JSON.parse(box.querySelector("script").textContent);
  const colours = getComputedStyle(document.documentElement);
  const { data, layout } = painted(figure, colours);
  layout.font.family = colours.getPropertyValue("--sans");
  const place = box.querySelector("div");
  Plotly.react(place, data, layout, { displayModeBar: false, responsive: true });
  if (box.dataset.drawn !== undefined) return;
  box.dataset.drawn = "";
  place.on("plotly_click", ({ points }) => {
    const address = points[0].customdata;
    if (typeof address === "string" && address.startsWith("/")) location.assign(address);
  });
}

function drawAll() {
  document.querySelectorAll("[data-chart]").forEach(draw);
}

drawAll();
new MutationObserver(drawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
systemLook.addEventListener("change", drawAll);
