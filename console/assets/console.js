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
      if (answer.ok) finish(form);
    } catch (fault) {
      result.textContent = `The request failed: ${fault.message}`;
    }
  };

  // the focus remains at the action, and a form without input does not delay the updates
  const finish = (form) => {
    const details = form.closest("details");
    form.reset();
    if (details) details.open = false;
    (details ? details.querySelector("summary") : form.querySelector("button")).focus();
  };

  const isInUse = () => {
    const form = document.activeElement && document.activeElement.closest("form");
    if (!form) return false;
    return document.activeElement.matches("input") || [...form.elements].some((each) => each.matches("input") && each.value !== each.defaultValue);
  };

  // a click requires its element from press to release; a release outside the window is not reported
  let pressed = -Infinity;
  document.addEventListener("pointerdown", (event) => { pressed = event.timeStamp; });
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => { pressed = -Infinity; });
  const isPressed = () => performance.now() - pressed < patience;

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.confirm) return;
    event.preventDefault();
    if (confirm(form.dataset.confirm)) send(form);
  });
  // returns the reason why the page is not replaced
  const replace = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    const fresh = next.querySelector("main#content");
    const main = document.querySelector("main");
    if (!fresh) throw new Error("a page other than the console");
    document.title = next.title;
    if (fresh.innerHTML === shown) return "";
    if (isPressed()) return problem;
    if (isInUse()) return `Not updated since ${since}: a form is in use`;
    shown = fresh.innerHTML;
    const opened = [...main.querySelectorAll("details[open]")].map((each) => each.id);
    const focused = document.activeElement && main.contains(document.activeElement) ? place(document.activeElement) : "";
    const scrolled = [...main.querySelectorAll(".scroll, .chart")].map((each) => [each.id, each.scrollLeft]);
    announce(conditions(main), conditions(fresh));
    main.replaceChildren(...fresh.childNodes);
    for (const [id, left] of scrolled) {
      const again = document.getElementById(id);
      if (left && again) again.scrollLeft = left;
    }
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

  const conditions = (content) => new Map([...content.querySelectorAll("#attention [data-key]")].map((each) => [each.dataset.key, `${each.querySelector("h3").textContent}: ${each.querySelector("p").textContent}`]));

  const announced = document.getElementById("announced");
  const announce = (before, after) => {
    const only = (some, others, word) => [...some].filter(([key]) => !others.has(key)).map(([, text]) => `${word}: ${text}.`);
    const news = [...only(after, before, "Needs attention"), ...only(before, after, "Ended")];
    if (news.length) announced.textContent = news.join(" ");
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
