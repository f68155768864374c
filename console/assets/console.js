// Replaces the content at intervals while the page is visible, and keeps focus and open sections. Sends a form after a confirmation.
(() => {
  "use strict";
  const seconds = Number(document.body.dataset.poll);
  const updated = document.getElementById("updated");
  const pause = document.getElementById("pause");
  const state = updated.parentElement;
  const patience = 10_000;
  const clock = () => new Date().toLocaleTimeString();
  let paused = false;
  let shown = "";
  let since = clock();
  let problem = "";

  const result = document.getElementById("result");

  // without this script, the page of the form's action asks for the confirmation
  const send = async (form) => {
    const address = new URL(form.dataset.address, location.href);
    for (const [name, value] of new FormData(form)) if (value && name !== "action") address.searchParams.set(name, value);
    try {
      const answer = await fetch(address, { method: "POST", headers: { "X-XSRF-HEADER": "console" }, credentials: "same-origin" });
      const text = await answer.text();
      try { result.textContent = JSON.parse(text).message; } catch { result.textContent = text; }
    } catch (fault) {
      result.textContent = `The request failed: ${fault.message}`;
    }
    if (document.activeElement) document.activeElement.blur();
  };

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.confirm) return;
    event.preventDefault();
    if (confirm(form.dataset.confirm)) send(form);
    else document.activeElement.blur();
  });
  // returns why the page is not replaced
  const replace = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    const fresh = next.querySelector("main#content");
    const main = document.querySelector("main");
    if (!fresh) throw new Error("another page than the console");
    document.title = next.title;
    if (fresh.innerHTML === shown) return "";
    if (document.activeElement && document.activeElement.closest("form")) return `Not updated since ${since}: a form is in use`;
    shown = fresh.innerHTML;
    const opened = [...main.querySelectorAll("details[open]")].map((each) => each.id);
    const focused = document.activeElement && main.contains(document.activeElement) ? place(document.activeElement) : "";
    main.replaceChildren(...fresh.childNodes);
    for (const id of opened) {
      const details = document.getElementById(id);
      if (details) details.open = true;
    }
    if (focused) {
      const again = main.querySelector(focused);
      if (again) again.focus({ preventScroll: true });
    }
    return "";
  };

  const report = (found) => {
    if (!found) since = clock();
    if (found !== problem) updated.textContent = found || `Updated again since ${since}`;
    problem = found;
    state.classList.toggle("stale", found !== "");
  };

  // a selector that finds the same element in the new content
  const place = (element) => {
    if (element.id) return `#${CSS.escape(element.id)}`;
    const section = element.closest("section[id]");
    const within = section ? `#${CSS.escape(section.id)} ` : "";
    const href = element.getAttribute("href");
    return within + (href ? `a[href="${CSS.escape(href)}"]` : element.tagName.toLowerCase());
  };

  const poll = async () => {
    if (!paused && !document.hidden) {
      let found = "";
      try {
        const signal = AbortSignal.timeout(patience);
        const answer = await fetch(location.pathname + location.search, { credentials: "same-origin", cache: "no-store", signal });
        if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
        const text = await answer.text();
        if (!paused) found = replace(text);
      } catch (fault) {
        found = `No answer since ${since}: ${fault.message}`;
      }
      if (!paused) report(found);
    }
    setTimeout(poll, seconds * 1000);
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume updates" : "Pause updates";
    updated.textContent = paused ? `Paused at ${clock()}` : "";
    problem = "";
    state.classList.remove("stale");
  });
  setTimeout(poll, seconds * 1000);
})();
