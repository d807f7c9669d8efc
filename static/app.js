// Times in the viewer's zone, keyboard, selection, copying, and manners of live updates. Everything else is HTML.
"use strict";

const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Times: the server writes UTC; here they become local, with UTC in the title.
const sameDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const otherDay = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
function localTimes(root) {
  const today = new Date().toDateString();
  for (const node of all("time[datetime]:not([data-local])", root)) {
    const moment = new Date(node.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    const short = node.dataset.form === "time" || moment.toDateString() === today;
    node.textContent = (short ? sameDay : otherDay).format(moment);
    node.dataset.local = "";
  }
}

// Which row is open: kept by event id, so that it survives every redraw.
let openEvent = new URLSearchParams(location.search).get("event");
function markOpen() {
  for (const row of all("#rows a.row")) {
    if (openEvent !== null && row.dataset.event === openEvent) row.setAttribute("aria-current", "true");
    else if (openEvent !== null || !location.search.includes("event=")) row.removeAttribute("aria-current");
  }
}
function remember(event) {
  openEvent = event;
  const url = new URL(location.href);
  if (event === null) url.searchParams.delete("event");
  else url.searchParams.set("event", event);
  history.replaceState(history.state, "", url);
  markOpen();
}
function closePanel() {
  const panel = $("aside#panel");
  if (!panel || openEvent === null) return false;
  const row = $("#rows a.row[aria-current]");
  remember(null);
  panel.classList.remove("open");
  htmx.ajax("GET", location.pathname, { source: panel, target: "#panel", select: "#panel", swap: "outerHTML" });
  if (row) row.focus({ preventScroll: true });
  return true;
}

// Keyboard.
let beyond = () => false; // timeline.js: goes on where the rows that are shown end
function step(by) {
  const rows = all("[data-row]").filter((row) => row.offsetParent);
  if (!rows.length) return;
  const here = rows.indexOf(document.activeElement);
  const open = rows.findIndex((row) => row.hasAttribute("aria-current"));
  const from = here >= 0 ? here : open;
  if (here >= 0 && (here + by >= rows.length || here + by < 0) && beyond(by)) return;
  const next = rows[from < 0 ? 0 : Math.min(Math.max(from + by, 0), rows.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  const typing = event.target.matches("input:not([type=radio]):not([type=checkbox]), select, textarea");
  if (event.key === "Escape") {
    const menu = $("details.menu[open]");
    if (typing) event.target.blur();
    else if (menu) menu.open = false;
    else if (!closePanel()) $("aside#panel a[data-back]")?.click();
    return;
  }
  if (typing) return;
  if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/" && $("[data-filter]")) $("[data-filter]").focus();
  else if (event.key === "?") $("#shortcuts").showModal();
  else return;
  event.preventDefault();
});

// Clicks.
let toastTimer = 0;
function toast(text) {
  const node = $("#toast");
  node.textContent = text;
  node.classList.add("on");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => node.classList.remove("on"), 1600);
}

// A verdict redraws its panel: the hint that was judged is where one goes on.
let judged = null;
document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  const box = detail.elt.closest("details.verdict");
  if (box) judged = box.dataset.judged;
});
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (judged === null || detail.target?.id !== "panel") return;
  const box = all("details.verdict").find((each) => each.dataset.judged === judged);
  judged = null;
  if (!box) return;
  $("summary", box).focus();
  if (!$("#panel [role=alert]")) toast("Kept");
});

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser did not allow copying");
  }
}
document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-copy], [data-copy-from], [data-theme-toggle], [data-open], [data-close], [data-confirm]");
  for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  if (!target) return;
  if (target.dataset.copy !== undefined) copy(target.dataset.copy);
  else if (target.dataset.copyFrom) copy(document.getElementById(target.dataset.copyFrom).textContent);
  else if (target.dataset.open) document.getElementById(target.dataset.open).showModal();
  else if (target.dataset.close !== undefined) closePanel();
  else if (target.dataset.confirm) { if (!confirm(target.dataset.confirm)) event.preventDefault(); }
  else switchTheme();
});
function switchTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  const theme = dark ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* it holds for this page */ }
}

// Links to an event of this run open its row and panel in place.
document.addEventListener("click", (event) => {
  const link = event.target.closest("aside#panel a[href*='?event=']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const wanted = new URL(link.href).searchParams.get("event");
  const row = all("#rows a.row").find((one) => one.dataset.event === wanted);
  if (!row) return;
  event.preventDefault();
  row.click();
  row.scrollIntoView({ block: "nearest" });
});

// htmx: empty filters stay out of the address, hidden pages do not ask, nothing moves away under a hand.
document.addEventListener("htmx:configRequest", (event) => {
  const { elt, parameters } = event.detail;
  if (elt.id === "filters") {
    for (const name of Object.keys(parameters)) if (parameters[name] === "" || (name === "show" && parameters[name] === "all")) delete parameters[name];
    for (const field of all("select, input.short", elt)) field.classList.toggle("on", field.value !== "");
    const clear = $(".clear", elt);
    if (clear) clear.hidden = !Object.keys(parameters).length;
  }
  if (elt.id === "run-rows" && !elt.matches(":hover, :focus-within") && scrollY < 200) parameters.fresh = "1";
});
document.addEventListener("htmx:beforeRequest", (event) => {
  const { elt } = event.detail;
  if (document.hidden && elt.dataset.live !== undefined) event.preventDefault();
  if (elt.matches("a.row, a.to-request")) {
    remember(elt.dataset.event);
    $("aside#panel").classList.add("open");
  }
});
let focused = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  const row = document.activeElement && document.activeElement.closest("[data-row]");
  focused = row ? row.getAttribute("href") : null;
});
document.addEventListener("htmx:afterSettle", (event) => {
  localTimes(document);
  markOpen();
  if (event.detail.target.id === "panel") $("#panel").scrollTop = 0;
  if (focused && (document.activeElement === document.body || document.activeElement === null)) {
    const row = all("[data-row]").find((one) => one.getAttribute("href") === focused);
    if (row) row.focus({ preventScroll: true });
  }
});

localTimes(document);
const opened = $("#rows a.row[aria-current]");
if (opened) {
  openEvent = opened.dataset.event;
  opened.scrollIntoView({ block: "nearest" });
}
