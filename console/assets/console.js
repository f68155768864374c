// Replaces the content at intervals while the page is visible; keeps focus and open sections. Nothing else is requested.
(() => {
  "use strict";
  const seconds = Number(document.body.dataset.poll);
  const updated = document.getElementById("updated");
  const pause = document.getElementById("pause");
  const state = updated.parentElement;
  let paused = false;
  let shown = "";

  const clock = () => new Date().toLocaleTimeString();

  const replace = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    const fresh = next.querySelector("main");
    const main = document.querySelector("main");
    if (!fresh || fresh.innerHTML === shown) return;
    shown = fresh.innerHTML;
    const typing = document.activeElement && document.activeElement.closest("form");
    if (typing) return;
    const opened = [...main.querySelectorAll("details[open]")].map((each) => each.id);
    const focused = document.activeElement && main.contains(document.activeElement) ? place(document.activeElement) : "";
    main.replaceChildren(...fresh.childNodes);
    document.title = next.title;
    for (const id of opened) {
      const details = document.getElementById(id);
      if (details) details.open = true;
    }
    if (focused) {
      const again = main.querySelector(focused);
      if (again) again.focus({ preventScroll: true });
    }
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
      try {
        const answer = await fetch(location.pathname + location.search, { credentials: "same-origin", cache: "no-store" });
        if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
        replace(await answer.text());
        if (state.classList.contains("stale")) updated.textContent = `Answers again since ${clock()}`;
        state.classList.remove("stale");
      } catch (fault) {
        if (!state.classList.contains("stale")) updated.textContent = `No answer since ${clock()}`;
        state.classList.add("stale");
      }
    }
    setTimeout(poll, seconds * 1000);
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume updates" : "Pause updates";
    updated.textContent = paused ? `Paused at ${clock()}` : "";
  });
  setTimeout(poll, seconds * 1000);
})();
