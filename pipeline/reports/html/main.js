// Starts the page: theme, charts, tables, and the current section in the navigation.
const DRAW = { treemap: drawTreemap, histogram: drawHistogram, bars: drawBars, timeline: drawTimeLine };

function prepareTheme(button) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => button.setAttribute("aria-label", `Use the ${isDark() ? "light" : "dark"} theme`);
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  name();
}

function prepareNavigation(links) {
  const byId = new Map(links.map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target.id);
      const current = [...byId.keys()].find((id) => seen.has(id));
      for (const [id, link] of byId) {
        if (id === current) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-15% 0px -60% 0px" },
  );
  for (const id of byId.keys()) watch.observe(document.getElementById(id));
}

document.documentElement.classList.add("scripted");
prepareTheme(document.querySelector(".theme"));
prepareNavigation([...document.querySelectorAll(".sections a")]);
for (const chart of document.querySelectorAll(".chart")) {
  const data = JSON.parse(chart.querySelector("script").textContent);
  DRAW[data.kind](chart.querySelector(".plot"), data);
}
for (const table of document.querySelectorAll("table")) prepareSorting(table);
for (const figure of document.querySelectorAll(".table")) prepareLength(figure);
