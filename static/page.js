// What every page does about its parts: says in place what could not be loaded and offers it again, marks what is being
// loaded, and says since when a page that follows something has heard nothing.
"use strict";

(() => {
  const isPoll = (elt) => (elt.getAttribute("hx-trigger") || "").includes("every ");
  const CAUSES = {
    0: "the server does not answer",
    400: "the request was not understood",
    403: "you may not see it, or your session is older than the page",
    404: "it is not there, or no longer",
    410: "it is gone",
    500: "the server could not make it",
    503: "the database does not answer",
  };

  function causeOf(xhr) {
    const status = xhr ? xhr.status : 0;
    const type = (status && xhr.getResponseHeader("Content-Type")) || "";
    if (type.startsWith("text/plain")) return xhr.responseText.slice(0, 300);
    const id = status === 500 ? xhr.getResponseHeader("X-Request-ID") : null;
    const cause = CAUSES[status] || `the answer was ${status}`;
    return id ? `${cause}; the log of the web process has it under ${id}` : cause;
  }

  function notice(className, role, text) {
    const node = document.createElement("div");
    node.className = `notice ${className}`;
    node.setAttribute("role", role);
    const words = document.createElement("span");
    words.textContent = text;
    node.append(words);
    return node;
  }
  function offer(node, label, act) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button small";
    button.textContent = label;
    button.addEventListener("click", act);
    node.append(" ", button);
  }

  // A part that was asked for: what stood there stays, with the reason above it.
  function sayFailed(detail, cause) {
    const { elt, target, requestConfig, pathInfo } = detail;
    if (!target || !target.isConnected) return;
    const place = target.closest("table") || target;
    forget(target);
    const isRead = requestConfig.verb === "get";
    const node = notice("bad failed", "alert", isRead ? `This could not be loaded: ${cause}.` : `Not known whether this was done: ${cause}. What you wrote is still here.`);
    if (isRead) {
      offer(node, "Try again", () => {
        const isThere = elt.isConnected;
        const path = isThere ? pathInfo.requestPath : pathInfo.finalRequestPath;
        node.remove();
        const again = htmx.ajax("GET", path, isThere ? { source: elt, target } : { target });
        again.catch(() => { /* the events below tell of it */ });
      });
    }
    if (place === target) place.prepend(node);
    else place.before(node);
  }
  function forget(target) {
    const place = target.closest("table");
    const before = place ? place.previousElementSibling : target.firstElementChild;
    if (before && before.matches(".notice.failed")) before.remove();
  }

  // A part that is asked for again and again: a bar that takes no room, from the first miss to the next answer.
  let heard = new Date();
  let stalled = null;
  function sayStalled(cause) {
    if (stalled) { stalled.firstElementChild.textContent = wordsOf(cause); return; }
    stalled = notice("warn stalled", "status", wordsOf(cause));
    offer(stalled, "Reload the page", () => location.reload());
    document.body.append(stalled);
  }
  function wordsOf(cause) {
    const at = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }).format(heard);
    return `As of ${at}: ${cause}. It is asked again by itself.`;
  }

  function failed(event) {
    const { detail } = event;
    const cause = causeOf(event.type === "htmx:responseError" ? detail.xhr : null);
    if (isPoll(detail.elt)) sayStalled(cause);
    else sayFailed(detail, event.type === "htmx:timeout" ? "the server took too long" : cause);
  }
  for (const name of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) document.addEventListener(name, failed);

  const busy = new WeakMap(); // by request: an answer may have led to another place than was asked for
  document.addEventListener("htmx:beforeRequest", ({ detail }) => {
    if (!detail.target || isPoll(detail.elt)) return;
    detail.target.setAttribute("aria-busy", "true");
    busy.set(detail.xhr, detail.target);
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    busy.get(detail.xhr)?.removeAttribute("aria-busy");
    if (!detail.successful) return;
    if (detail.target) forget(detail.target);
    if (!isPoll(detail.elt)) return;
    heard = new Date();
    if (stalled) stalled.remove();
    stalled = null;
  });

  // The menu of a narrow screen shows where one is.
  document.addEventListener("DOMContentLoaded", () => {
    const here = document.querySelector(".top nav [aria-current]");
    if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 40;
  });
})();
