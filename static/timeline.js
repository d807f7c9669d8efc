// The timeline of one run: windows of rows that scrolling brings in, the strip, turns that are folded. Uses app.js.
"use strict";

// Windows: at most MOST_KEPT stand in the page; each is { from, first, last, items, top, end } (its rows, its pagers).
const MOST_KEPT = 2;
const NEAR = 300; // pixels to the edge of the rows at which the next window is asked for
const TOP = 44; // height of the page's bar
let kept = [];
let busy = null; // { by, done }: the window that was asked for
function windowOf(root) {
  const rows = $("#rows", root);
  const number = (name) => $(`[${name}]`, root)?.textContent ?? "";
  return {
    from: Number(rows.dataset.from), first: number("data-first"), last: number("data-last"), items: [...rows.children],
    top: $("#pager-top", root).innerHTML, end: $("#pager-end", root).innerHTML, zoom: $("#zoom-rows", root)?.getAttribute("href"),
  };
}
function adopt() {
  const rows = $("#rows");
  kept = rows ? [windowOf($("#timeline"))] : [];
  if (rows) $("[data-fold-all]").hidden = !$(".turn", rows);
  foldAnew();
}
function linkTo(by) {
  return $(by > 0 ? "#pager-end a[rel=next]" : "#pager-top a[rel=prev]");
}
function neighbour(by) {
  return Boolean(linkTo(by)) && !$("#live[data-live]");
}
// Bring the next (1) or the previous (-1) window in; the promise is of that window, null where there is none.
function extend(by) {
  if (busy) return busy.by === by ? busy.done : Promise.resolve(null);
  if (!kept.length || !neighbour(by)) return Promise.resolve(null);
  busy = { by, done: fetched(by).finally(() => { busy = null; }) };
  return busy.done;
}
async function fetched(by) {
  const edge = kept.at(by > 0 ? -1 : 0);
  try {
    const answer = await fetch(linkTo(by).getAttribute("hx-get"), { headers: { "HX-Request": "true" } });
    if (!answer.ok) throw new Error(String(answer.status));
    const part = windowOf(new DOMParser().parseFromString(await answer.text(), "text/html"));
    // A link that was followed meanwhile brings a window of its own, and has to stand until that is here.
    if (!kept.includes(edge) || $("#timeline .pager a.htmx-request")) return null;
    put(part, by);
    return part;
  } catch {
    toast("These rows could not be loaded");
    return null;
  }
}
function put(part, by) {
  const next = by > 0 ? [...kept, part] : [part, ...kept];
  const gone = next.length > MOST_KEPT ? (by > 0 ? next.shift() : next.pop()) : null;
  const still = visibleRow(next);
  const before = still?.getBoundingClientRect().top;
  const hadFocus = gone?.items.some((item) => item.contains(document.activeElement));
  kept = next;
  for (const item of gone?.items ?? []) item.remove();
  $("#rows")[by > 0 ? "append" : "prepend"](...part.items);
  for (const item of part.items) htmx.process(item);
  tell();
  joinHeadings();
  foldAnew();
  markOpen();
  if (still) scrollBy(0, still.getBoundingClientRect().top - before);
  if (hadFocus) $("a.row", still ?? $("#rows")).focus({ preventScroll: true });
  lastY = scrollY;
  drawView();
}
function visibleRow(parts) {
  const rows = parts.flatMap((part) => part.items).filter((item) => item.isConnected && item.offsetParent);
  return rows.find((item) => item.getBoundingClientRect().bottom > TOP) ?? rows.at(-1);
}
// The pagers, the counts and the address speak of all rows that stand there.
function tell() {
  const [first, last] = [kept[0], kept.at(-1)];
  for (const [id, html] of [["pager-top", first.top], ["pager-end", last.end]]) {
    const place = document.getElementById(id);
    place.innerHTML = html;
    htmx.process(place);
  }
  for (const node of all("[data-first]")) node.textContent = first.first;
  for (const node of all("[data-last]")) node.textContent = last.last;
  $("#rows").dataset.from = String(first.from);
  if (last.zoom) $("#zoom-rows")?.setAttribute("href", last.zoom);
  const url = new URL(location.href);
  if (first.from) url.searchParams.set("from", String(first.from));
  else url.searchParams.delete("from");
  history.replaceState(history.state, "", url);
}
// A turn that goes on in the next window has one heading.
function joinHeadings() {
  let last = "";
  for (const item of kept.flatMap((part) => part.items)) {
    if (!item.matches(".turn")) continue;
    const title = $(".fold", item).textContent;
    item.hidden = title === last;
    item.dataset.key ??= item.id;
    item.id = item.hidden ? "" : item.dataset.key;
    if (item.hidden) item.removeAttribute("id");
    last = title;
  }
}
let lastY = scrollY;
function whenMoved(by) {
  const rows = $("#rows");
  if (!by || !rows || !kept.length) return;
  const box = rows.getBoundingClientRect();
  if (by > 0 ? box.bottom < innerHeight + NEAR : box.top > TOP - NEAR) extend(by);
}
addEventListener("scroll", () => {
  const by = Math.sign(scrollY - lastY);
  lastY = scrollY;
  whenMoved(by);
}, { passive: true });
addEventListener("wheel", (event) => { if (!event.target.closest("aside")) whenMoved(Math.sign(event.deltaY)); }, { passive: true });
// j and k cross from window to window.
beyond = (by) => {
  if (!neighbour(by)) {
    const link = linkTo(by);
    link?.click();
    return Boolean(link);
  }
  extend(by).then((part) => {
    if (!part || !kept.includes(part)) return;
    const row = part.items.filter((item) => item.offsetParent && $("a.row", item)).at(by > 0 ? 0 : -1);
    if (!row) return;
    $("a.row", row).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    lastY = scrollY;
  });
  return true;
};

// Turns: a folded one shows its heading with what it hides.
const folded = new Set();
let allFolded = false;
function isFolded(title) {
  return allFolded !== folded.has(title);
}
function foldAnew() {
  let fold = null;
  let hides = false;
  for (const item of all("#rows > li")) {
    if (item.matches(".turn:not([hidden])")) {
      fold = $(".fold", item);
      hides = isFolded(fold.textContent);
      fold.setAttribute("aria-expanded", String(!hides));
      fold.removeAttribute("data-hides");
    }
    item.classList.toggle("folded", hides && !item.matches(".turn"));
  }
  for (const heading of all("#rows > .turn:not([hidden])")) sayHidden(heading);
}
function sayHidden(heading) {
  const rows = [];
  for (let item = heading.nextElementSibling; item && !item.matches(".turn:not([hidden])"); item = item.nextElementSibling) if (item.matches(".folded")) rows.push(item);
  if (!rows.length) return;
  const failed = rows.filter((row) => row.matches(".bad")).length;
  $(".fold", heading).dataset.hides = `${rows.length} row${rows.length === 1 ? "" : "s"}${failed ? `, ${failed} failed` : ""}`;
}
document.addEventListener("click", (event) => {
  const fold = event.target.closest("[data-fold]");
  if (fold) {
    if (!folded.delete(fold.textContent)) folded.add(fold.textContent);
  } else if (event.target.closest("[data-fold-all]")) {
    allFolded = !allFolded;
    folded.clear();
    const button = $("[data-fold-all]");
    button.setAttribute("aria-pressed", String(allFolded));
    button.textContent = allFolded ? "Expand turns" : "Collapse turns";
  } else return;
  foldAnew();
  drawView();
});

// The strip: a click leads to the first row from there, a drag to that part; a frame shows which part the rows are.
let wantedPlace = null;
function placeOf(event) {
  const box = $("#strip svg").getBoundingClientRect();
  return Math.min(Math.max((1000 * (event.clientX - box.left)) / box.width, 0), 1000);
}
function goTo(place) {
  const strip = $("#strip");
  const filters = $("#filters");
  const lefts = all("#rows a.row[data-left]").map((row) => Number(row.dataset.left));
  const isHere = lefts.length && place >= Math.min(...lefts) && place <= Math.max(...lefts);
  const isFiltered = $("[name=q]", filters).value || $("[name=show]:checked", filters).value !== "all";
  if (isHere || isFiltered || !strip.dataset.rows) { showPlace(place); return; }
  wantedPlace = place;
  const asked = new URLSearchParams(new FormData(filters));
  asked.set("at", place.toFixed(2));
  htmx.ajax("GET", `${strip.dataset.rows}?${asked}`, { source: "#filters", target: "#timeline", swap: "innerHTML", values: {} });
}
function showPlace(place) {
  const row = all("#rows a.row[data-left]").find((one) => Number(one.dataset.left) >= place) || all("#rows a.row").pop();
  if (!row) return;
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
  lastY = scrollY;
}
let pressed = null; // where the strip was pressed, in thousandths
const LEAST_DRAG = 6; // thousandths
document.addEventListener("pointerdown", (event) => {
  if (event.button || !event.target.closest("#strip")) return;
  pressed = placeOf(event);
  event.preventDefault();
});
document.addEventListener("pointermove", (event) => {
  if (pressed === null) return;
  const here = placeOf(event);
  const drag = $("#strip-drag");
  drag.setAttribute("x", String(Math.min(here, pressed)));
  drag.setAttribute("width", String(Math.abs(here - pressed) < LEAST_DRAG ? 0 : Math.abs(here - pressed)));
});
document.addEventListener("pointerup", (event) => {
  if (pressed === null) return;
  const [from, to] = [pressed, placeOf(event)].sort((a, b) => a - b);
  pressed = null;
  if (to - from < LEAST_DRAG) { $("#strip-drag").setAttribute("width", "0"); goTo(from); return; }
  const asked = new URL(location.href);
  asked.searchParams.delete("part");
  asked.searchParams.delete("from");
  asked.searchParams.set("zoom", `${from.toFixed(2)}-${to.toFixed(2)}`);
  location.assign(asked);
});
document.addEventListener("pointercancel", () => { pressed = null; $("#strip-drag")?.setAttribute("width", "0"); });
let drawing = false;
function drawView() {
  const view = $("#strip-view");
  if (!view || drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const rows = all("#rows a.row[data-left]").filter((row) => row.offsetParent);
    const visible = rows.filter((row) => {
      const box = row.getBoundingClientRect();
      return box.bottom > TOP && box.top < innerHeight;
    });
    if (!visible.length || (visible.length === rows.length && !$("#strip").dataset.rows)) { view.setAttribute("width", "0"); return; }
    const isPart = "part" in $("#strip").dataset;
    const lefts = visible.map((row) => Number(row.dataset.left));
    const ends = visible.map((row) => {
      const bar = isPart ? null : $("rect", row);
      return bar ? Number(bar.getAttribute("x")) + Number(bar.getAttribute("width")) : Number(row.dataset.left);
    });
    const left = Math.min(...lefts);
    view.setAttribute("x", String(left));
    view.setAttribute("width", String(Math.max(Math.max(...ends) - left, 4)));
  });
}
addEventListener("scroll", drawView, { passive: true });
addEventListener("resize", drawView);

let turned = null; // the way a pager's link turned the rows, "prev" or "next"
document.addEventListener("htmx:beforeSwap", (event) => {
  turned = event.detail.requestConfig?.elt?.closest?.("#timeline .pager a")?.rel ?? null;
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target.id === "timeline" || !kept.some((part) => part.items.some((item) => item.isConnected))) adopt();
  else if (event.detail.target.id !== "panel") foldAnew();
  drawView();
  if (event.detail.target.id !== "timeline") return;
  if (wantedPlace !== null) showPlace(wantedPlace);
  else if (turned) {
    const row = all("#rows a.row").at(turned === "prev" ? -1 : 0);
    if (row) { row.focus({ preventScroll: true }); row.scrollIntoView({ block: turned === "prev" ? "end" : "center" }); }
  }
  wantedPlace = turned = null;
  lastY = scrollY;
});

adopt();
drawView();
